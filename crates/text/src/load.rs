//! Metadata to tokenizer.

use crate::Error;
use crate::merges::{MERGES, MergeTable};
use crate::model::{ByteLevel, PieceMerges, Pieces, SPACE};
use crate::pretokenize::{LINES, Pretokenizer};
use crate::special::SpecialTokens;
use crate::template;
use crate::tokenizer::{Model, Tokenizer, byte_value};
use crate::vocab::{NONE, TokenType, Vocab, unspell};
use zinc_gguf::{Metadata, Strings};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";

/// Kinds of tokenizer by `tokenizer.ggml.model`.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `gpt2`: byte-level BPE.
    ByteLevel,
    /// `llama`: sentencepiece by scores.
    Scores,
    /// `gemma4`: sentencepiece's spelling with a merge table.
    Table,
}

const KINDS: [(&str, Kind); 3] =
    [("gpt2", Kind::ByteLevel), ("llama", Kind::Scores), ("gemma4", Kind::Table)];

/// See [`Tokenizer::from_metadata`].
pub(crate) fn tokenizer(metadata: &Metadata, pre_override: Option<&str>) -> Result<Tokenizer, Error> {
    let kind = kind(metadata)?;
    if kind != Kind::ByteLevel && pre_override.is_some() {
        let reason = format!("is `{}`, which has no pretokenizer to override", metadata.str(MODEL)?);
        return Err(Error::BadValue { key: MODEL, reason });
    }
    let tokens: &Strings = metadata.required(TOKENS)?;
    let types = token_types(metadata, tokens.len())?;
    let (vocab, special) = vocabulary(kind, tokens, &types);
    let model = match kind {
        Kind::ByteLevel => Model::ByteLevel(byte_level(metadata, pre_override, &vocab)?),
        Kind::Scores | Kind::Table => Model::Pieces(pieces(metadata, kind, &vocab)?),
    };
    let (bos, eos) = (token(metadata, "tokenizer.ggml.bos_token_id", &vocab)?, token(metadata, EOS, &vocab)?);
    let usual = match &model {
        Model::ByteLevel(model) => model.pre.adds_bos,
        Model::Pieces(_) => true,
    };
    let add_bos = metadata.optional("tokenizer.ggml.add_bos_token")?.unwrap_or(usual);
    let mut tokenizer = Tokenizer { vocab, special, model, bos, eos, add_bos, end_of_generation: Vec::new() };
    tokenizer.end_of_generation = end_of_generation(metadata, &tokenizer)?;
    Ok(tokenizer)
}

fn kind(metadata: &Metadata) -> Result<Kind, Error> {
    let model = metadata.str(MODEL)?;
    KINDS.iter().find(|(name, _)| *name == model).map(|&(_, kind)| kind).ok_or_else(|| Error::UnknownModel {
        model: model.into(),
        known: KINDS.map(|(name, _)| format!("`{name}`")).join(", "),
    })
}

/// The type of each of `count` tokens; all ordinary where the file does not say.
pub(crate) fn token_types(metadata: &Metadata, count: usize) -> Result<Vec<TokenType>, Error> {
    if count >= NONE as usize {
        return Err(Error::BadValue {
            key: TOKENS,
            reason: format!("has {count} tokens, more than ids can name"),
        });
    }
    let Some(codes) = metadata.optional::<Vec<i64>>(TYPES)? else {
        return Ok(vec![TokenType::Normal; count]);
    };
    expect_length(TYPES, codes.len(), count)?;
    let parse = |(id, &code): (usize, &i64)| {
        let reason = || format!("says {code} for token {id}, which is no token type (1 to 6)");
        TokenType::from_code(code).ok_or_else(|| Error::BadValue { key: TYPES, reason: reason() })
    };
    codes.iter().enumerate().map(parse).collect()
}

fn expect_length(key: &'static str, found: usize, tokens: usize) -> Result<(), Error> {
    if found == tokens {
        return Ok(());
    }
    Err(Error::BadValue { key, reason: format!("has {found} entries for {tokens} tokens") })
}

/// All tokens, and the trie of those that are matched in raw text.
fn vocabulary(kind: Kind, tokens: &Strings, types: &[TokenType]) -> (Vocab, SpecialTokens) {
    let mut vocab = Vocab::with_capacity(tokens.len());
    let mut special = SpecialTokens::new();
    let mut bytes = Vec::new();
    for (id, (text, &token_type)) in tokens.iter().zip(types).enumerate() {
        bytes.clear();
        let ordinary = token_type == TokenType::Normal;
        let spelt = match kind {
            Kind::ByteLevel => ordinary && unspell(text, &mut bytes),
            Kind::Scores | Kind::Table => {
                let added = token_type == TokenType::UserDefined;
                let marked = if added { text.replace(' ', SPACE) } else { text.to_owned() };
                bytes.extend_from_slice(marked.as_bytes());
                ordinary || added
            }
        };
        if !spelt && bytes.is_empty() {
            bytes.extend_from_slice(text.as_bytes());
        }
        match token_type {
            // Runs of spaces are written with spaces in the file, but are no match for spaces in raw text: those
            // become `▁` and merge.
            TokenType::UserDefined if kind != Kind::ByteLevel && text.trim_matches(' ').is_empty() => {
                special.insert(&bytes, id as u32, token_type);
            }
            TokenType::UserDefined | TokenType::Control | TokenType::Unknown => {
                special.insert(text.as_bytes(), id as u32, token_type);
            }
            TokenType::Normal | TokenType::Unused | TokenType::Byte => {}
        }
        vocab.push(&bytes, token_type, spelt);
    }
    (vocab, special)
}

fn byte_level(metadata: &Metadata, pre_override: Option<&str>, vocab: &Vocab) -> Result<ByteLevel, Error> {
    let name = match pre_override {
        Some(name) => name,
        None => metadata.optional(PRE)?.unwrap_or("(not given)"),
    };
    let pre = Pretokenizer::find(name)?;
    let spell = |side: &str, out: &mut Vec<u8>| {
        unspell(side, out);
    };
    let merges = MergeTable::parse(metadata.strings(MERGES)?, vocab, spell)?;
    let mut bytes = Box::new([NONE; 256]);
    for (b, id) in (0..=u8::MAX).zip(bytes.iter_mut()) {
        *id = vocab.find(&[b]).unwrap_or(NONE);
    }
    Ok(ByteLevel { pre, splitter: pre.compile(), merges, bytes })
}

fn pieces(metadata: &Metadata, kind: Kind, vocab: &Vocab) -> Result<Pieces, Error> {
    let ids = 0..vocab.len() as u32;
    let merges = if kind == Kind::Table {
        let spell = |side: &str, out: &mut Vec<u8>| out.extend_from_slice(side.as_bytes());
        PieceMerges::Table(MergeTable::parse(metadata.strings(MERGES)?, vocab, spell)?)
    } else {
        let mut scores: Vec<f32> = metadata.required(SCORES)?;
        expect_length(SCORES, scores.len(), vocab.len())?;
        // The converter marks added tokens with −1000; sentencepiece merges them before all others.
        let added = ids.clone().filter(|&id| vocab.kind(id) == Some(TokenType::UserDefined));
        added.for_each(|id| scores[id as usize] = 0.0);
        PieceMerges::Scores(scores)
    };
    let mut bytes = Box::new([NONE; 256]);
    for id in ids.filter(|&id| vocab.kind(id) == Some(TokenType::Byte)) {
        if let Some(b) = byte_value(vocab.bytes(id)) {
            bytes[usize::from(b)] = id;
        }
    }
    let unknown = token(metadata, "tokenizer.ggml.unknown_token_id", vocab)?;
    let space_prefix = metadata.optional("tokenizer.ggml.add_space_prefix")?.unwrap_or(kind == Kind::Scores);
    let splitter = (kind == Kind::Table).then(|| LINES.compile());
    Ok(Pieces { merges, splitter, bytes, unknown, space_prefix })
}

const EOS: &str = "tokenizer.ggml.eos_token_id";

/// A token id from the metadata; −1 or a missing key means none.
fn token(metadata: &Metadata, key: &'static str, vocab: &Vocab) -> Result<Option<u32>, Error> {
    match metadata.optional::<i64>(key)? {
        None | Some(-1 | 0xffff_ffff) => Ok(None),
        Some(id) => match u32::try_from(id) {
            Ok(id) if (id as usize) < vocab.len() => Ok(Some(id)),
            _ => {
                Err(Error::BadValue { key, reason: format!("is {id}, but there are {} tokens", vocab.len()) })
            }
        },
    }
}

/// Names of control tokens that end a text or a turn whichever model has them. What ends a turn in this model's
/// chats is learnt from its template besides.
const ENDINGS: [&str; 11] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|return|>",
    "<|call|>",
    "<eos>",
    "</s>",
];

fn end_of_generation(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
    let mut ids: Vec<u32> = tokenizer.eos.into_iter().collect();
    for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
        ids.extend(token(metadata, key, &tokenizer.vocab)?);
    }
    let named = ENDINGS.iter().filter_map(|name| tokenizer.find_token(name));
    ids.extend(named.filter(|&id| tokenizer.is_control(id)));
    ids.extend(template::turn_end(metadata, tokenizer));
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
