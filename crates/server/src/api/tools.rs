//! Tools: which are offered, and which calls may be made.

use crate::calls::{Callable, Calls, texts};
use crate::constrain::Grammar;
use crate::error::{ApiError, ApiResult};
use serde_json::{Value, json};
use std::sync::LazyLock;
use zinc_text::{AnswerFormat, Tokenizer, Tool, ToolFormat};

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
    let mut function = json!({
        "name": tool["name"], "description": tool["description"], "parameters": tool[schema],
    });
    if tool["strict"] == true {
        function["strict"] = true.into();
    }
    json!({"type": "function", "function": function})
}

/// The arguments of a function of which nothing is said.
static ANY_OBJECT: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));

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
            ToolChoice::Named(name) if !tools.names().any(|n| n == name) => {
                Err(ApiError::field("tool_choice", format!("there is no tool `{name}`")))
            }
            _ => Ok(tools),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().filter_map(|t| t["function"]["name"].as_str())
    }

    /// What a parser of answers is to know of the tools that may be called.
    pub fn offered(&self) -> Vec<Tool> {
        let tool = |t: &Value| {
            let name = t["function"]["name"].as_str().unwrap_or_default().to_owned();
            Tool { name, texts: texts(&t["function"]["parameters"]) }
        };
        match self.choice {
            ToolChoice::None => Vec::new(),
            _ => self.definitions.iter().map(tool).collect(),
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

    /// Whether calls that the model begins by itself are held to the schemas of `strict` tools.
    pub fn strict(&self) -> bool {
        self.choice == ToolChoice::Auto && self.definitions.iter().any(is_strict)
    }

    /// The marks in an answer of a model that sets those of `own`. One that knows no tools writes a call that must be made as Hermes.
    pub fn format(&self, own: AnswerFormat) -> AnswerFormat {
        match own.tools() {
            None if self.forced() => own.with_tools(Some(ToolFormat::Hermes)),
            _ => own,
        }
    }

    /// The grammar of calls in a form: of those that must be made, else of one whose mark was said.
    ///
    /// # Errors
    /// For the client: a schema that cannot be enforced.
    pub fn grammar(&self, format: ToolFormat, tokenizer: &Tokenizer) -> ApiResult<Grammar> {
        let may_be_called = |t: &&Value| match &self.choice {
            ToolChoice::Named(name) => t["function"]["name"] == **name,
            _ => true,
        };
        let callable = |t| {
            let of_tool: &Value = t;
            // By itself the model may call any tool; what is not `strict` is an object.
            let enforced = self.forced() || is_strict(of_tool);
            let parameters = &of_tool["function"]["parameters"];
            let schema = if enforced && parameters.is_object() { parameters } else { &*ANY_OBJECT };
            Callable { name: of_tool["function"]["name"].as_str().unwrap_or_default(), parameters: schema }
        };
        let calls = Calls {
            format,
            tools: self.definitions.iter().filter(may_be_called).map(callable).collect(),
            many: self.parallel && !matches!(self.choice, ToolChoice::Named(_)),
            begun: !self.forced(),
        };
        calls.grammar(tokenizer).map_err(|e| ApiError::field("tools", e))
    }
}

fn is_strict(tool: &Value) -> bool {
    tool["function"]["strict"] == true
}
