//! Arguments that are written as JSON: they are given out letter for letter as they come.

/// Reads an object, and what is left of the object around it.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    /// Whether the arguments are a field of an object.
    inside: bool,
    place: Place,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Arguments,
    /// They are complete.
    After,
    /// More fields of the object around them, which are of no interest.
    Fields,
}

impl Reader {
    /// From the opening brace on. `inside`: the arguments are a field of an object, which is read to its end.
    pub(super) fn new(inside: bool) -> Reader {
        Reader { inside, place: Place::Arguments, depth: 0, in_text: false, escaped: false }
    }

    /// As [`super::Arguments::read`].
    pub(super) fn read(&mut self, text: &str, json: &mut String) -> (usize, bool) {
        let mut taken = 0;
        if self.place == Place::Arguments {
            let end = self.end(text);
            taken = end.unwrap_or(text.len());
            json.push_str(&text[..taken]);
            match end {
                Some(_) if self.inside => self.place = Place::After,
                Some(_) => return (taken, true),
                None => return (taken, false),
            }
        }
        if self.place == Place::After {
            let rest = text[taken..].trim_start();
            match rest.chars().next() {
                None => return (taken, false),
                Some('}') => return (text.len() - rest.len() + 1, true),
                Some(',') => (self.place, self.depth, taken) = (Place::Fields, 1, text.len() - rest.len()),
                Some(_) => return (taken, true),
            }
        }
        match self.end(&text[taken..]) {
            Some(end) => (taken + end, true),
            None => (text.len(), false),
        }
    }

    /// Where the outermost object ends.
    fn end(&mut self, text: &str) -> Option<usize> {
        for (i, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(i + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Text inside of a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// Text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
