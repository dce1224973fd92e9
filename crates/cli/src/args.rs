//! Options that several commands share.

use crate::error::{Outcome, error, file, usage};
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use zinc_text::ControlTokens;
use zinc_vulkan::DeviceWish;

/// The model to run.
#[derive(clap::Args)]
pub struct ModelArg {
    /// The GGUF file; of a split model any part.
    #[arg(short = 'm', long = "model", value_name = "FILE")]
    pub model: PathBuf,
}

/// A Vulkan device by number or name.
#[derive(clap::Args)]
pub struct DeviceArg {
    /// Vulkan device: its number in `zinc devices`, or a part of its name or driver. A software driver is used only when named.
    #[arg(long, value_name = "DEVICE", value_parser = device_wish)]
    pub device: Option<DeviceWish>,
}

impl DeviceArg {
    /// The wish; without the option the best device.
    pub fn wish(&self) -> DeviceWish {
        self.device.clone().unwrap_or_default()
    }
}

fn device_wish(text: &str) -> Result<DeviceWish, String> {
    Ok(match text.parse() {
        Ok(index) => DeviceWish::Index(index),
        Err(_) if text.is_empty() => return Err("a number or a part of a name is needed".into()),
        Err(_) if text.eq_ignore_ascii_case("auto") => DeviceWish::Auto,
        Err(_) => DeviceWish::NameContains(text.into()),
    })
}

/// What a control token's spelling in the text is.
#[derive(clap::Args)]
pub struct ControlArg {
    /// Whether control tokens that are spelt in the text, such as `<|im_end|>`, become those tokens.
    #[arg(long, value_enum, default_value_t = Control::Text)]
    pub control: Control,
}

/// The values of `--control`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Control {
    /// They are text like any other
    Text,
    /// They become control tokens
    Parse,
}

impl ControlArg {
    /// For the tokenizer.
    pub fn tokens(&self) -> ControlTokens {
        match self.control {
            Control::Text => ControlTokens::AsText,
            Control::Parse => ControlTokens::Parse,
        }
    }
}

/// The token ids of one option.
pub type TokenIds = Vec<u32>;

/// A comma-separated list of token ids.
pub fn token_ids(text: &str) -> Result<TokenIds, String> {
    let ids = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|t| !t.is_empty());
    let ids: Result<Vec<u32>, String> =
        ids.map(|t| t.parse().map_err(|_| format!("`{t}` is not a token id"))).collect();
    ids.and_then(|ids| if ids.is_empty() { Err("no token id".into()) } else { Ok(ids) })
}

/// A number of bytes: `1073741824`, `512MiB`, `32GiB`; `GB` means the same as `GiB`.
pub fn byte_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        unit => return Err(format!("unknown unit `{unit}`, one of B, KiB, MiB, GiB, TiB is meant")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size such as 32GiB"))?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes < 1.0 || bytes >= 2f64.powi(63) {
        return Err(format!("`{text}` is out of range"));
    }
    Ok(bytes as u64)
}

/// The text of an argument, or all of standard input where it is absent or `-`.
pub fn text_or_stdin(text: Option<&str>) -> Outcome<String> {
    match text {
        Some("-") => {}
        Some(text) => return Ok(text.to_string()),
        None if io::stdin().is_terminal() => {
            return Err(usage(
                "the text is missing",
                "give it as an argument, or `-` to type it and end with Ctrl-D",
            ));
        }
        None => {}
    }
    let mut bytes = Vec::new();
    let name = PathBuf::from("standard input");
    io::stdin().lock().read_to_end(&mut bytes).map_err(|e| file(&name, "read", &e))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        error(format!("standard input is not UTF-8: byte {at} is invalid"), "convert the text to UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_known_unit() {
        assert_eq!(byte_size("32GiB"), Ok(32 << 30));
        assert_eq!(byte_size("1.5 MiB"), Ok(3 << 19));
        assert_eq!(byte_size("1024"), Ok(1024));
        for bad in ["", "GiB", "3 apples", "-1", "0", "1e99", "99999999999TiB"] {
            assert!(byte_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn token_ids_are_numbers() {
        assert_eq!(token_ids("1, 2,3"), Ok(vec![1, 2, 3]));
        assert!(token_ids("1,x").is_err());
        assert!(token_ids("-1").is_err());
        assert!(token_ids("").is_err());
    }
}
