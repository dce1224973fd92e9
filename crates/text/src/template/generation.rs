//! `{% generation %}` marks what the assistant said, for training. It is not Jinja; rendering ignores it.

/// The source with every `generation` tag turned into one that does nothing, white space control and line numbers
/// kept.
pub(super) fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let close = match tag.as_bytes().get(1) {
            Some(b'%') => "%}",
            Some(b'{') => "}}",
            Some(b'#') => "#}",
            _ => {
                out.push('{');
                rest = &tag[1..];
                continue;
            }
        };
        let end = tag[2..].find(close).map_or(tag.len(), |e| 2 + e + close.len());
        out.push_str(&rewritten(&tag[..end]));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

fn rewritten(tag: &str) -> String {
    let inner = tag.strip_prefix("{%").and_then(|t| t.strip_suffix("%}")).unwrap_or_default();
    match inner.trim_matches(['-', '+']).trim() {
        "generation" => tag.replacen("generation", "if true", 1),
        "endgeneration" => tag.replacen("endgeneration", "endif", 1),
        _ => tag.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tags_change() {
        let cases = [
            ("a{%- generation -%}\n{{ x }}{% endgeneration %}b", "a{%- if true -%}\n{{ x }}{% endif %}b"),
            ("{# {% generation %} #}{{ '{%generation%}' }}", "{# {% generation %} #}{{ '{%generation%}' }}"),
            ("{% if generation %}{ {%", "{% if generation %}{ {%"),
        ];
        for (source, want) in cases {
            assert_eq!(without_generation_blocks(source), want);
        }
    }
}
