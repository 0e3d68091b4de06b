//! Rehearsals: scenarios, random worlds, drawn scripts, and the fault cases of the ring, all on the
//! very state machine that real nodes run.

mod cases;
mod checkers;
mod common;
mod drawn_scripts;
mod exploration;
mod forwarding;
mod found;
mod hops;
mod planted;
mod random_worlds;
mod registers;
mod routings;
mod scenarios;
mod sweep;
