//! What a compute module says about itself: workgroup size, push constants, shared memory, specialisation constants.
//!
//! Enough of SPIR-V to check a pipeline before the driver sees it, and for tests that compare a shader with the
//! params struct of its host code.

use std::collections::{HashMap, HashSet};

/// What was read from a module, with specialisation applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reflection {
    /// Invocations of a workgroup in x, y, z.
    pub workgroup_size: [u32; 3],
    /// Size of the push constant block up to the end of its last member; 0: none.
    pub push_constant_bytes: u32,
    /// Number of leading members of that block that are addresses (buffer references or 64-bit integers).
    pub push_constant_addresses: u32,
    /// Bytes of shared memory (a lower bound where a size is computed in a way not understood here).
    pub shared_bytes: u32,
    /// Ids of the specialisation constants, ascending.
    pub specialization_ids: Vec<u32>,
    /// SPIR-V capabilities, by number.
    pub capabilities: Vec<u32>,
}

// Opcodes, decorations and storage classes of the SPIR-V specification.
mod op {
    pub const ENTRY_POINT: u32 = 15;
    pub const EXECUTION_MODE: u32 = 16;
    pub const CAPABILITY: u32 = 17;
    pub const TYPE_BOOL: u32 = 20;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_FLOAT: u32 = 22;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_MATRIX: u32 = 24;
    pub const TYPE_ARRAY: u32 = 28;
    pub const TYPE_STRUCT: u32 = 30;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FORWARD_POINTER: u32 = 39;
    pub const CONSTANT: u32 = 43;
    pub const CONSTANT_COMPOSITE: u32 = 44;
    pub const SPEC_TRUE: u32 = 48;
    pub const SPEC_FALSE: u32 = 49;
    pub const SPEC_CONSTANT: u32 = 50;
    pub const SPEC_COMPOSITE: u32 = 51;
    pub const SPEC_OP: u32 = 52;
    pub const VARIABLE: u32 = 59;
    pub const DECORATE: u32 = 71;
    pub const MEMBER_DECORATE: u32 = 72;
    pub const EXECUTION_MODE_ID: u32 = 331;
}
const GL_COMPUTE: u32 = 5;
const LOCAL_SIZE: u32 = 17;
const LOCAL_SIZE_ID: u32 = 38;
const SPEC_ID: u32 = 1;
const ARRAY_STRIDE: u32 = 6;
const BUILT_IN: u32 = 11;
const OFFSET: u32 = 35;
const WORKGROUP_SIZE: u32 = 25;
const WORKGROUP: u32 = 4;
const PUSH_CONSTANT: u32 = 9;

#[derive(Debug, Clone)]
enum Type {
    /// Bytes of a scalar.
    Scalar(u32),
    /// Element and count: vectors and matrices.
    Many(u32, u32),
    /// Element and the id of the length.
    Array(u32, u32),
    Struct(Vec<u32>),
    /// The pointee.
    Pointer(u32),
}

#[derive(Default)]
struct Module {
    types: HashMap<u32, Type>,
    values: HashMap<u32, u32>,
    composites: HashMap<u32, Vec<u32>>,
    variables: Vec<(u32, u32)>,
    spec_ids: HashMap<u32, u32>,
    strides: HashMap<u32, u32>,
    offsets: HashMap<(u32, u32), u32>,
    forward: HashSet<u32>,
    workgroup_size: Option<u32>,
}

/// Reads a module.
///
/// # Errors
/// In words, when it is no well-formed SPIR-V, lacks the compute entry point, or a specialisation id is not there.
pub fn reflect(spirv: &[u32], entry: &str, specialization: &[(u32, u32)]) -> Result<Reflection, String> {
    if spirv.len() < 5 || spirv[0] != 0x0723_0203 {
        return Err("not a SPIR-V module".into());
    }
    let wanted: HashMap<u32, u32> = specialization.iter().copied().collect();
    let mut m = Module::default();
    let mut r = Reflection { workgroup_size: [1; 3], ..Default::default() };
    let mut entry_id = None;
    let mut size_ids = None;
    let mut at = 5;
    while at < spirv.len() {
        let (len, opcode) = ((spirv[at] >> 16) as usize, spirv[at] & 0xffff);
        let Some(w) = spirv.get(at..at + len).filter(|w| !w.is_empty()) else {
            return Err(format!("the SPIR-V is cut off at word {at}"));
        };
        at += len;
        match (opcode, &w[1..]) {
            (op::CAPABILITY, &[c, ..]) => r.capabilities.push(c),
            (op::ENTRY_POINT, [GL_COMPUTE, id, name @ ..]) if text(name) == entry => entry_id = Some(*id),
            (op::EXECUTION_MODE, &[id, LOCAL_SIZE, x, y, z]) if Some(id) == entry_id => {
                r.workgroup_size = [x, y, z];
            }
            (op::EXECUTION_MODE_ID, &[id, LOCAL_SIZE_ID, x, y, z]) if Some(id) == entry_id => {
                size_ids = Some(vec![x, y, z]);
            }
            (_, operands) => m.note(opcode, operands, &wanted),
        }
    }
    if entry_id.is_none() {
        return Err(format!("no compute entry point `{entry}`"));
    }
    let built_in = m.workgroup_size.and_then(|id| m.composites.get(&id).cloned());
    if let Some(ids) = built_in.or(size_ids) {
        for (size, id) in r.workgroup_size.iter_mut().zip(ids) {
            *size = m.values.get(&id).copied().ok_or("the workgroup size is not constant")?;
        }
    }
    r.specialization_ids = m.spec_ids.values().copied().collect();
    r.specialization_ids.sort_unstable();
    r.specialization_ids.dedup();
    if let Some(id) = wanted.keys().find(|id| !r.specialization_ids.contains(id)) {
        return Err(format!("no specialisation constant {id}; it has {:?}", r.specialization_ids));
    }
    m.variables(&mut r);
    Ok(r)
}

impl Module {
    fn note(&mut self, opcode: u32, operands: &[u32], wanted: &HashMap<u32, u32>) {
        match (opcode, operands) {
            (op::TYPE_BOOL, &[id]) => drop(self.types.insert(id, Type::Scalar(4))),
            (op::TYPE_INT | op::TYPE_FLOAT, &[id, bits, ..]) => {
                self.types.insert(id, Type::Scalar(bits / 8));
            }
            (op::TYPE_VECTOR | op::TYPE_MATRIX, &[id, element, count]) => {
                self.types.insert(id, Type::Many(element, count));
            }
            (op::TYPE_ARRAY, &[id, element, len]) => drop(self.types.insert(id, Type::Array(element, len))),
            (op::TYPE_STRUCT, [id, members @ ..]) => {
                self.types.insert(*id, Type::Struct(members.to_vec()));
            }
            (op::TYPE_POINTER, &[id, _, target]) => {
                self.types.insert(id, Type::Pointer(target));
            }
            (op::TYPE_FORWARD_POINTER, &[id, ..]) => drop(self.forward.insert(id)),
            (op::CONSTANT, &[_, id, value, ..]) => drop(self.values.insert(id, value)),
            (op::SPEC_CONSTANT, &[_, id, value, ..]) => self.specialise(id, value, wanted),
            (op::SPEC_TRUE, &[_, id]) => self.specialise(id, 1, wanted),
            (op::SPEC_FALSE, &[_, id]) => self.specialise(id, 0, wanted),
            (op::CONSTANT_COMPOSITE | op::SPEC_COMPOSITE, [_, id, parts @ ..]) => {
                self.composites.insert(*id, parts.to_vec());
            }
            (op::SPEC_OP, &[_, id, opcode, ref operands @ ..]) => {
                if let Some(value) = self.evaluate(opcode, operands) {
                    self.values.insert(id, value);
                }
            }
            (op::VARIABLE, &[pointer, _, class, ..]) => self.variables.push((pointer, class)),
            (op::DECORATE, &[id, SPEC_ID, n]) => drop(self.spec_ids.insert(id, n)),
            (op::DECORATE, &[id, ARRAY_STRIDE, n]) => drop(self.strides.insert(id, n)),
            (op::DECORATE, &[id, BUILT_IN, WORKGROUP_SIZE]) => self.workgroup_size = Some(id),
            (op::MEMBER_DECORATE, &[id, member, OFFSET, n]) => drop(self.offsets.insert((id, member), n)),
            _ => {}
        }
    }

    fn specialise(&mut self, id: u32, default: u32, wanted: &HashMap<u32, u32>) {
        let value = self.spec_ids.get(&id).and_then(|n| wanted.get(n)).copied().unwrap_or(default);
        self.values.insert(id, value);
    }

    /// OpSpecConstantOp on 32-bit integers.
    fn evaluate(&self, opcode: u32, operands: &[u32]) -> Option<u32> {
        if opcode == 81 {
            // CompositeExtract: the index is a literal.
            let part = *self.composites.get(operands.first()?)?.get(*operands.get(1)? as usize)?;
            return self.values.get(&part).copied();
        }
        let v: Vec<u32> = operands.iter().map(|id| self.values.get(id).copied()).collect::<Option<_>>()?;
        let (a, b) = (*v.first()?, v.get(1).copied().unwrap_or(0));
        Some(match opcode {
            113 | 114 | 124 => a, // UConvert, SConvert, Bitcast
            126 => a.wrapping_neg(),
            128 => a.wrapping_add(b),
            130 => a.wrapping_sub(b),
            132 => a.wrapping_mul(b),
            134 => a.checked_div(b)?,
            135 => (a as i32).checked_div(b as i32)? as u32,
            137 => a.checked_rem(b)?,
            138 | 139 => (a as i32).checked_rem(b as i32)? as u32,
            166 => (a != 0 || b != 0).into(),
            167 => (a != 0 && b != 0).into(),
            168 => (a == 0).into(),
            169 => {
                if a != 0 {
                    b
                } else {
                    *v.get(2)?
                }
            }
            170 => (a == b).into(),
            171 => (a != b).into(),
            172 => (a > b).into(),
            173 => (a as i32 > b as i32).into(),
            174 => (a >= b).into(),
            175 => (a as i32 >= b as i32).into(),
            176 => (a < b).into(),
            177 => ((a as i32) < b as i32).into(),
            178 => (a <= b).into(),
            179 => (a as i32 <= b as i32).into(),
            194 => a.checked_shr(b)?,
            196 => a.checked_shl(b)?,
            197 => a | b,
            198 => a ^ b,
            199 => a & b,
            200 => !a,
            _ => return None,
        })
    }

    fn variables(&self, r: &mut Reflection) {
        let mut explicit = 0; // blocks with offsets share one place (VK_KHR_workgroup_memory_explicit_layout)
        let mut plain = 0u32;
        for &(pointer, class) in &self.variables {
            let Some(&Type::Pointer(target)) = self.types.get(&pointer) else { continue };
            let bytes = self.size(target, 0);
            match class {
                WORKGROUP if self.offsets.contains_key(&(target, 0)) => explicit = bytes.max(explicit),
                WORKGROUP => plain = round_up(plain, self.align(target, 0)).saturating_add(bytes),
                PUSH_CONSTANT => {
                    r.push_constant_bytes = bytes;
                    r.push_constant_addresses = self.addresses(target);
                }
                _ => {}
            }
        }
        r.shared_bytes = plain.saturating_add(explicit);
    }

    fn addresses(&self, block: u32) -> u32 {
        let Some(Type::Struct(members)) = self.types.get(&block) else { return 0 };
        let is_address = |t: &&u32| match self.types.get(t) {
            Some(Type::Pointer(..)) => true,
            Some(Type::Scalar(8)) => true,
            _ => self.forward.contains(t),
        };
        members.iter().take_while(is_address).count() as u32
    }

    /// Bytes of a type. Depth is bounded: a malformed module may nest types in a circle.
    fn size(&self, id: u32, depth: u32) -> u32 {
        if depth > 16 {
            return 0;
        }
        match self.types.get(&id) {
            Some(Type::Scalar(bytes)) => *bytes,
            Some(Type::Many(element, n)) => self.size(*element, depth + 1).saturating_mul(*n),
            Some(Type::Array(element, n)) => {
                let n = self.values.get(n).copied().unwrap_or(1);
                let stride = self.strides.get(&id).copied();
                stride.unwrap_or_else(|| self.size(*element, depth + 1)).saturating_mul(n)
            }
            Some(Type::Struct(members)) => members.iter().enumerate().fold(0u32, |end, (i, &t)| {
                let offset = self.offsets.get(&(id, i as u32)).copied();
                let offset = offset.unwrap_or_else(|| round_up(end, self.align(t, depth + 1)));
                end.max(offset.saturating_add(self.size(t, depth + 1)))
            }),
            Some(Type::Pointer(..)) => 8,
            None => 0,
        }
    }

    fn align(&self, id: u32, depth: u32) -> u32 {
        if depth > 16 {
            return 1;
        }
        match self.types.get(&id) {
            Some(Type::Scalar(bytes)) => (*bytes).max(1),
            Some(Type::Many(element, _) | Type::Array(element, _)) => self.align(*element, depth + 1),
            Some(Type::Struct(members)) => {
                members.iter().map(|&t| self.align(t, depth + 1)).max().unwrap_or(1)
            }
            Some(Type::Pointer(..)) => 8,
            None => 1,
        }
    }
}

fn round_up(n: u32, align: u32) -> u32 {
    n.checked_next_multiple_of(align).unwrap_or(u32::MAX)
}

/// A literal string: bytes in little-endian words up to a NUL.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[path = "spirv_tests.rs"]
mod tests;
