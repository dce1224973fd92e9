//! Ids back to text: whole, and one at a time.

mod support;

use zinc_testkit::Rng;
use zinc_text::{ControlTokens, Detokenizer, Tokenizer};

/// A tokenizer of every kind.
fn kinds() -> Vec<(&'static str, Tokenizer)> {
    let tiny = ["qwen3", "gemma3", "gemma4"].into_iter();
    let mut all: Vec<_> =
        tiny.filter_map(|name| Some((name, support::from_gguf(&support::fixture(name)?)))).collect();
    all.push(("space prefix", support::pieces_with_space_prefix()));
    all.push(("bytes", support::bytes_and(&["<s>", "</s>"])));
    all
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
    text.push_str(&detokenizer.finish());
    text
}

#[test]
fn pushed_text_joined_is_the_decoded_text() {
    let mut rng = Rng::fresh();
    for (name, tokenizer) in kinds() {
        for _ in 0..400 {
            let ids: Vec<u32> =
                (0..rng.below(40)).map(|_| rng.below(tokenizer.vocab_size() + 2) as u32).collect();
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.token_bytes(id).into_owned()).collect();
            let decoded = tokenizer.decode(&ids);
            assert_eq!(streamed(&tokenizer, &ids), decoded, "{name}: {ids:?}");
            if name != "space prefix" {
                assert_eq!(decoded, String::from_utf8_lossy(&bytes), "{name}: {ids:?}");
            }
        }
    }
}

#[test]
fn characters_come_whole_and_as_soon_as_they_are() {
    for (name, tokenizer) in kinds() {
        for text in ["naïve 🚀 日本", "é🧑‍🚀é"] {
            let ids = tokenizer.encode(text, ControlTokens::AsText);
            let mut detokenizer = Detokenizer::continuing(&tokenizer);
            let mut bytes = 0;
            let mut seen = String::new();
            for &id in &ids {
                bytes += tokenizer.token_bytes(id).len();
                seen.push_str(&detokenizer.push(id));
                assert!(!seen.contains('\u{fffd}') && bytes - seen.len() < 4, "{name}: {text}");
            }
            assert_eq!(detokenizer.finish(), "", "{name}");
            assert!(seen.ends_with(text), "{name}: {seen:?}");
        }
    }
}

#[test]
fn a_broken_character_becomes_a_replacement_character() {
    let tokenizer = support::bytes_and(&["<s>", "</s>"]);
    let ids = [0xf0, 0x9f, 0x9a];
    let mut detokenizer = Detokenizer::new(&tokenizer);
    assert_eq!(ids.map(|id| detokenizer.push(id)).concat(), "");
    assert_eq!(detokenizer.finish(), "\u{fffd}");
    let mut detokenizer = Detokenizer::new(&tokenizer);
    assert_eq!([0xe2, 0x82, 0x61, 0xff].map(|id| detokenizer.push(id)), ["", "", "\u{fffd}a", "\u{fffd}"]);
}

#[test]
fn random_text_comes_back() {
    let mut rng = Rng::fresh();
    let alphabet: Vec<char> = "ab  hi\n\tZé🚀日क\u{93c}\u{301}<>|sm▁".chars().filter(|&c| c != '▁').collect();
    for (name, tokenizer) in kinds() {
        for _ in 0..400 {
            let text: String = (0..rng.below(30)).map(|_| alphabet[rng.below(alphabet.len())]).collect();
            let decoded = tokenizer.decode(&tokenizer.encode(&text, ControlTokens::AsText));
            // The Qwen tokenizers compose: compare what is left when they do it again.
            let again = tokenizer.decode(&tokenizer.encode(&decoded, ControlTokens::AsText));
            assert_eq!(decoded, again, "{name}: {text:?}");
            if name != "qwen3" {
                assert_eq!(decoded, text, "{name}");
            }
        }
    }
}

#[test]
fn the_space_in_front_is_added_and_taken_away() {
    let tokenizer = support::pieces_with_space_prefix();
    let id = |text| tokenizer.find_token(text).unwrap();
    assert_eq!(tokenizer.encode("hi", ControlTokens::AsText), [id(" hi")]);
    assert_eq!(tokenizer.encode(" hi", ControlTokens::AsText), [id("  "), id("h"), id("i")]);
    assert_eq!(tokenizer.encode("<s>hi<tool>a", ControlTokens::Parse), [1, id(" hi"), 3, id(" a")]);
    for text in ["hi", " hi", "  ", "", "<s>hi<tool>a", "<s>  ab"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, ControlTokens::Parse)), text);
    }
    let mut continuing = Detokenizer::continuing(&tokenizer);
    assert_eq!(continuing.push(id(" hi")), " hi");
}

#[test]
fn long_texts_and_long_words_take_no_longer_than_they_must() {
    let start = std::time::Instant::now();
    for (_, tokenizer) in kinds() {
        let prose = "The capital of France is Paris; 12345 naïve cafés.\n".repeat(20_000);
        for text in [
            &prose,
            &"a".repeat(100_000),
            &" ".repeat(300_000),
            &"\n \t".repeat(50_000),
            &"日本".repeat(50_000),
        ] {
            let ids = tokenizer.encode(text, ControlTokens::AsText);
            assert_eq!(tokenizer.decode(&ids), **text);
        }
    }
    // Seconds at the worst; hours if anything were quadratic.
    assert!(start.elapsed().as_secs() < 200, "took {:?}", start.elapsed());
}
