//! Disks that fail on purpose, and what must hold after each way of failing.

mod files;
mod index;
mod platter;
