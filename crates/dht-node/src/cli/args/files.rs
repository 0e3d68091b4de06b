//! Arguments of the commands about files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::cli::units::parse_bytes;

/// Arguments of `put`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PutArgs {
    /// The key (the file's name, if it is left out) and the file; `-` is stdin
    #[arg(value_name = "KEY FILE", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<OsString>,
    /// KEY is given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
    /// MIME type
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Something to note; repeatable
    #[arg(long, value_name = "K=V", value_parser = parse_meta)]
    pub(crate) meta: Vec<(String, String)>,
    /// Length of the chunks, such as 64KiB [default: the ring's, 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) chunk_size: Option<u64>,
    /// Only if there is no such key (not built yet)
    #[arg(long, hide = true)]
    pub(crate) if_absent: bool,
    /// Only over this version (not built yet)
    #[arg(long, value_name = "VERSION", hide = true)]
    pub(crate) if_match: Option<String>,
    /// Forget it after so long (not built yet)
    #[arg(long, value_name = "D", hide = true)]
    pub(crate) ttl: Option<String>,
}

/// Arguments of `get`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GetArgs {
    /// The key
    pub(crate) key: String,
    /// KEY is given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
    /// Where to; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Only these bytes (not built yet)
    #[arg(long, value_name = "A-B", hide = true)]
    pub(crate) range: Option<String>,
}

/// Arguments of `info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InfoArgs {
    /// The key
    pub(crate) key: String,
    /// KEY is given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
}

/// Arguments of `rm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RmArgs {
    /// The key
    pub(crate) key: String,
    /// KEY is given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
    /// Only this version (not built yet)
    #[arg(long, value_name = "VERSION", hide = true)]
    pub(crate) if_match: Option<String>,
}

/// Arguments of `ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LsArgs {
    /// Only keys that start so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Sizes, versions and times too
    #[arg(long, short)]
    pub(crate) long: bool,
    /// At most so many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
    /// PREFIX and the key of --after are given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
}

/// Why a text is no `K=V`: it has no `=`, or nothing before it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("write it as name=value")]
pub(crate) struct MetaError;

fn parse_meta(text: &str) -> Result<(String, String), MetaError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(MetaError),
    }
}
