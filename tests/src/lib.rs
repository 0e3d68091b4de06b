//! Support for the cluster tests.
