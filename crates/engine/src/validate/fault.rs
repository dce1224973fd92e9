//! A fault on purpose, so that validate mode can show that it finds one.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// One element of one row of an operation's output that batched prefill gets wrong; of the cache where the output goes there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Layer; `None` before the first and after the last.
    pub layer: Option<u32>,
    /// Label of the operation, `ffn_down`; with its name where a label has several, `q/add_bias`. `route/pack`
    /// is the packing of slots by expert: of some row. Where fusion took its output
    /// away, the output of the call that does it.
    pub op: String,
    /// Row among the tokens that are validated; `None`: the last.
    pub row: Option<usize>,
}

/// A fault with its row among `tokens` tokens.
pub(super) fn place(fault: Option<&Fault>, tokens: usize) -> Result<Option<(&Fault, usize)>, Error> {
    let Some(fault) = fault else { return Ok(None) };
    match fault.row.or(tokens.checked_sub(1)) {
        Some(row) if row < tokens => Ok(Some((fault, row))),
        _ => Err(Error::Option(format!("the fault `{fault}` is beyond the {tokens} tokens"))),
    }
}

impl FromStr for Fault {
    type Err = String;

    /// `LAYER:OP[:ROW]`, `-` for no layer.
    fn from_str(text: &str) -> Result<Fault, String> {
        let wrong = || format!("`{text}` is not LAYER:OP or LAYER:OP:ROW");
        let mut parts = text.split(':');
        let (Some(layer), Some(op)) = (parts.next(), parts.next().filter(|op| !op.is_empty())) else {
            return Err(wrong());
        };
        let layer = match layer {
            "-" => None,
            layer => Some(layer.parse().map_err(|_| wrong())?),
        };
        let row = parts.next().map(|row| row.parse().map_err(|_| wrong())).transpose()?;
        if parts.next().is_some() { Err(wrong()) } else { Ok(Fault { layer, op: op.into(), row }) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "{layer}:{}", self.op)?,
            None => write!(f, "-:{}", self.op)?,
        }
        self.row.map_or(Ok(()), |row| write!(f, ":{row}"))
    }
}
