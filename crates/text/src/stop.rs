//! Stop strings in a stream: they may begin in one token and end in another.

/// Watches a stream of text for stop strings. Text that may be the beginning of one is held back until it is
/// known; what is emitted does not depend on how the stream was cut.
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
}

/// What became of pushed text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopStep {
    /// Text that is certainly before any stop string.
    pub emit: String,
    /// The stop string that was completed; the stream ends here.
    pub hit: Option<String>,
}

impl StopStrings {
    /// Stops at any of these; empty ones are ignored.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        StopStrings { stops: stops.into_iter().filter(|s| !s.is_empty()).collect(), held: String::new() }
    }

    /// Takes the next piece of text. The stop string that is complete first wins, of several at once the longest.
    pub fn push(&mut self, text: &str) -> StopStep {
        self.held.push_str(text);
        if let Some((start, stop)) = self.first_hit() {
            let emit = self.held[..start].to_owned();
            let hit = Some(stop.to_owned());
            self.held.clear();
            return StopStep { emit, hit };
        }
        let keep = self.stops.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0);
        let emit = self.held.drain(..self.held.len() - keep).collect();
        StopStep { emit, hit: None }
    }

    /// The text that was held back, when the stream ends without a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn first_hit(&self) -> Option<(usize, &str)> {
        let found = self.stops.iter().filter_map(|s| Some((self.held.find(s.as_str())?, s.as_str())));
        found.min_by_key(|&(start, stop)| (start + stop.len(), start))
    }
}

/// Length of the longest proper beginning of `stop` that `text` ends with.
pub(crate) fn overlap(text: &str, stop: &str) -> usize {
    let lengths = stop.char_indices().map(|(at, _)| at).rev().filter(|&n| n <= text.len());
    lengths.into_iter().find(|&n| text.as_bytes().ends_with(&stop.as_bytes()[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Emitted text and hit, for a text pushed in pieces.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let mut s = StopStrings::new(stops.iter().map(|&s| s.to_owned()));
        let mut text = String::new();
        for piece in pieces {
            let step = s.push(piece);
            text.push_str(&step.emit);
            if step.hit.is_some() {
                return (text, step.hit);
            }
        }
        text.push_str(&s.finish());
        (text, None)
    }

    #[test]
    fn every_cut_gives_the_same() {
        let cases: [(&[&str], &str, &str, Option<&str>); 6] = [
            (&["\n\nUser:"], "ab\n\nUser: x", "ab", Some("\n\nUser:")),
            (&["aab"], "aaab", "a", Some("aab")),
            (&["abcd", "bc"], "xabcd", "xa", Some("bc")),
            (&["bc", "abc"], "xabc", "x", Some("abc")),
            (&["é!", "", "zz"], "caé?é!", "caé?", Some("é!")),
            (&["END"], "an EN", "an EN", None),
        ];
        for (stops, text, want, hit) in cases {
            let borders: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
            for &i in &borders {
                for &j in borders.iter().filter(|&&j| j >= i) {
                    let got = run(stops, &[&text[..i], &text[i..j], &text[j..]]);
                    assert_eq!((got.0.as_str(), got.1.as_deref()), (want, hit), "{text:?} cut at {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn only_a_possible_beginning_is_held_back() {
        let mut s = StopStrings::new(["stop".to_owned()]);
        assert_eq!(s.push("no st").emit, "no ");
        assert_eq!(s.push("ep").emit, "step");
        assert_eq!(s.finish(), "");
    }
}
