//! What an answer must look like, as the APIs say it.

use crate::constrain::Grammar;
use crate::error::{ApiError, ApiResult};
use serde::Deserialize;
use serde_json::Value;

/// `response_format` of chats, `text.format` of responses.
#[derive(Debug, Clone, Deserialize)]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<NamedSchema>,
    /// Of `json_schema` in responses, and of `json_object` in some clients.
    schema: Option<Value>,
    /// Of `grammar` and `regex`.
    grammar: Option<String>,
    regex: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct NamedSchema {
    schema: Option<Value>,
}

impl ResponseFormat {
    /// The grammar; none for `text`.
    ///
    /// # Errors
    /// For the client: an unknown type, a missing schema.
    pub fn grammar(self) -> ApiResult<Option<Grammar>> {
        let missing = |what: &str| ApiError::field("response_format", format!("`{what}` is missing"));
        Ok(match self.kind.as_str() {
            "text" => None,
            "json_object" => Some(self.schema.map_or_else(Grammar::json_object, Grammar::schema)),
            "json_schema" => {
                let schema = self.json_schema.and_then(|s| s.schema).or(self.schema);
                Some(Grammar::schema(schema.ok_or_else(|| missing("json_schema.schema"))?))
            }
            "grammar" | "lark" => Some(Grammar::Lark(self.grammar.ok_or_else(|| missing("grammar"))?)),
            "regex" => Some(Grammar::Regex(self.regex.ok_or_else(|| missing("regex"))?)),
            other => {
                let known = "`text`, `json_object`, `json_schema`, `grammar` and `regex`";
                let message = format!("`{other}` is unknown; there are {known}");
                return Err(ApiError::field("response_format.type", message));
            }
        })
    }
}

/// The one of two ways to ask for a grammar that was used.
///
/// # Errors
/// For the client: both.
pub fn one_of(format: Option<Grammar>, grammar: Option<Grammar>) -> ApiResult<Option<Grammar>> {
    match (format, grammar) {
        (Some(_), Some(_)) => Err(ApiError::bad("only one of `response_format` and `grammar` can be given")),
        (format, grammar) => Ok(format.or(grammar)),
    }
}
