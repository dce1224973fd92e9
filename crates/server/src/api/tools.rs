//! Tools: which are offered, and the grammar of a call that must be made.

use crate::constrain::{Grammar, one_line};
use crate::error::{ApiError, ApiResult};
use serde_json::{Value, json};
use zinc_text::ToolFormat;

/// Tools that a request offers.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// OpenAI's definitions: `{"type": "function", "function": {…}}`.
    pub definitions: Vec<Value>,
    pub choice: ToolChoice,
    /// More calls than one.
    pub parallel: bool,
}

/// Whether tools are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// Not at all: the model is not told of them.
    None,
    /// One at least.
    Required,
    /// This one.
    Named(String),
}

impl ToolChoice {
    /// Of OpenAI's `tool_choice`, in chats and responses.
    ///
    /// # Errors
    /// For the client: an unknown one.
    pub fn of_openai(choice: Option<&Value>) -> ApiResult<ToolChoice> {
        let wrong =
            || ApiError::field("tool_choice", "it must be `auto`, `none`, `required` or name a function");
        match choice {
            None | Some(Value::Null) => Ok(ToolChoice::Auto),
            Some(Value::String(word)) => match word.as_str() {
                "auto" => Ok(ToolChoice::Auto),
                "none" => Ok(ToolChoice::None),
                "required" | "any" => Ok(ToolChoice::Required),
                _ => Err(wrong()),
            },
            Some(object) => {
                let name = object.pointer("/function/name").or_else(|| object.get("name"));
                name.and_then(Value::as_str).map(|n| ToolChoice::Named(n.into())).ok_or_else(wrong)
            }
        }
    }
}

/// The definition of a function that an API has in a flat form, with its parameters under `schema`.
pub fn function(tool: &Value, schema: &str) -> Value {
    json!({"type": "function", "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool[schema],
    }})
}

impl Tools {
    /// Checks definitions: each is a function with a name.
    ///
    /// # Errors
    /// For the client: which is not.
    pub fn new(definitions: Vec<Value>, choice: ToolChoice, parallel: bool) -> ApiResult<Tools> {
        for (i, tool) in definitions.iter().enumerate() {
            let name = tool.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
            if name.is_empty() {
                let message = "a tool must be `{\"type\": \"function\", \"function\": {\"name\": …}}`";
                return Err(ApiError::field(format!("tools[{i}]"), message));
            }
        }
        let tools = Tools { definitions, choice, parallel };
        match &tools.choice {
            ToolChoice::Required if tools.definitions.is_empty() => {
                Err(ApiError::field("tool_choice", "a call is required, but there are no tools"))
            }
            ToolChoice::Named(name) if !tools.names().contains(name) => {
                Err(ApiError::field("tool_choice", format!("there is no tool `{name}`")))
            }
            _ => Ok(tools),
        }
    }

    /// The names of the tools that may be called.
    pub fn names(&self) -> Vec<String> {
        let name = |t: &Value| t.pointer("/function/name").and_then(Value::as_str).map(str::to_owned);
        match self.choice {
            ToolChoice::None => Vec::new(),
            _ => self.definitions.iter().filter_map(name).collect(),
        }
    }

    /// What the template is given.
    pub fn for_template(&self) -> Option<Value> {
        let offered = self.choice != ToolChoice::None && !self.definitions.is_empty();
        offered.then(|| Value::Array(self.definitions.clone()))
    }

    /// Whether a call must be made.
    pub fn forced(&self) -> bool {
        matches!(self.choice, ToolChoice::Required | ToolChoice::Named(_))
    }

    /// How a forced call is written: in the model's own form where that is JSON, else in that of Hermes.
    pub fn forced_format(own: Option<ToolFormat>) -> ToolFormat {
        match own {
            Some(ToolFormat::Llama3) => ToolFormat::Llama3,
            _ => ToolFormat::Hermes,
        }
    }

    /// The grammar of a call that must be made; none where none must.
    pub fn grammar(&self, format: ToolFormat) -> Option<Grammar> {
        let called: Vec<&Value> = match &self.choice {
            ToolChoice::Required => self.definitions.iter().collect(),
            ToolChoice::Named(name) => {
                self.definitions.iter().filter(|t| t["function"]["name"] == **name).collect()
            }
            ToolChoice::Auto | ToolChoice::None => return None,
        };
        let many = self.parallel && self.choice == ToolChoice::Required;
        let (before, key, after, between) = match format {
            ToolFormat::Llama3 => ("", "parameters", "", "\"; \""),
            _ => ("<tool_call>\\n", "arguments", "\\n</tool_call>", "\"\\n\""),
        };
        let repeat = if many { format!(" ({between} call)*") } else { String::new() };
        let mut lark = format!("start: call{repeat}\ncall: ");
        let alternatives: Vec<String> = (0..called.len()).map(|i| format!("call_{i}")).collect();
        lark.push_str(&alternatives.join(" | "));
        for (i, tool) in called.iter().enumerate() {
            // As a JSON string in a JSON string: Lark's strings are JSON's.
            let head = format!("{{\"name\": {}, \"{key}\": ", tool["function"]["name"]);
            let head = json!(head).to_string();
            let mut schema = match &tool["function"]["parameters"] {
                Value::Object(schema) if !schema.is_empty() => Value::Object(schema.clone()),
                _ => json!({"type": "object"}),
            };
            one_line(&mut schema);
            let head = &head[1..head.len() - 1];
            lark.push_str(&format!(
                "\ncall_{i}: \"{before}{head}\" arguments_{i} \"}}{after}\"\narguments_{i}: %json {schema}"
            ));
        }
        Some(Grammar::Lark(lark + "\n"))
    }
}
