//! How many bytes of push constants a module reads, so that tests can hold it against the Rust side.

use std::collections::HashMap;

const OP_TYPE_INT: u32 = 21;
const OP_TYPE_FLOAT: u32 = 22;
const OP_TYPE_VECTOR: u32 = 23;
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_TYPE_FORWARD_POINTER: u32 = 39;
const OP_CONSTANT: u32 = 43;
const OP_VARIABLE: u32 = 59;
const OP_MEMBER_DECORATE: u32 = 72;
const DECORATION_OFFSET: u32 = 35;
const STORAGE_PUSH_CONSTANT: u32 = 9;

/// The end of the last member of the push constant block; 0 where there is none.
pub fn push_bytes(words: &[u32]) -> Result<u32, String> {
    let mut sizes: HashMap<u32, u32> = HashMap::new();
    let mut constants: HashMap<u32, u32> = HashMap::new();
    let mut structs: HashMap<u32, &[u32]> = HashMap::new();
    let mut offsets: HashMap<(u32, u32), u32> = HashMap::new();
    let mut pointees: HashMap<u32, u32> = HashMap::new();
    let mut block = None;
    let mut at = 5;
    while let Some(&first) = words.get(at) {
        let (op, len) = (first & 0xffff, (first >> 16) as usize);
        let args = words.get(at + 1..at + len).filter(|_| len > 0).ok_or("a cut module")?;
        match (op, args) {
            (OP_TYPE_INT | OP_TYPE_FLOAT, [id, bits, ..]) => drop(sizes.insert(*id, bits / 8)),
            (OP_TYPE_VECTOR, [id, of, count]) => {
                let size = sizes.get(of).copied().unwrap_or(0) * count;
                sizes.insert(*id, size);
            }
            (OP_CONSTANT, [_, id, value]) => drop(constants.insert(*id, *value)),
            // Of the scalar layout, so without gaps.
            (OP_TYPE_ARRAY, [id, of, count]) => {
                let count = constants.get(count).copied().unwrap_or(0);
                let size = sizes.get(of).copied().unwrap_or(0) * count;
                sizes.insert(*id, size);
            }
            (OP_TYPE_STRUCT, [id, members @ ..]) => drop(structs.insert(*id, members)),
            (OP_TYPE_FORWARD_POINTER, [id, ..]) => drop(sizes.insert(*id, 8)),
            (OP_TYPE_POINTER, [id, _, of]) => {
                sizes.insert(*id, 8);
                pointees.insert(*id, *of);
            }
            (OP_MEMBER_DECORATE, [id, member, DECORATION_OFFSET, offset]) => {
                offsets.insert((*id, *member), *offset);
            }
            (OP_VARIABLE, [pointer, _, STORAGE_PUSH_CONSTANT, ..]) => block = pointees.get(pointer).copied(),
            _ => {}
        }
        at += len;
    }
    let Some(id) = block else { return Ok(0) };
    let members = structs.get(&id).ok_or("the push constant block is no struct")?;
    let ends = members.iter().enumerate().map(|(i, of)| {
        let size = sizes.get(of).ok_or("a push constant that is no scalar, vector, array or address")?;
        Ok(offsets.get(&(id, i as u32)).ok_or("a member without offset")? + size)
    });
    ends.collect::<Result<Vec<u32>, &str>>()
        .map(|ends| ends.into_iter().max().unwrap_or(0))
        .map_err(String::from)
}
