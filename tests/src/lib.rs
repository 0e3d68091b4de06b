//! Support for the scenarios: the workspace's own files, and clusters of real processes.

pub mod workspace;
