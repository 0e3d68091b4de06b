//! The `dht-node` program. All of it is in the library, where it can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    dht_node::cli::main()
}
