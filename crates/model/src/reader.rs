//! Typed access to a file's metadata and tensors, keeping account of the tensors that were used.

use crate::error::Error;
use std::collections::{HashMap, HashSet};
use zinc_gguf::{FromValue, Gguf, TensorInfo};
use zinc_plan::{Weight, WeightId};

/// Reads the keys of one architecture and collects the tensors it uses.
pub(crate) struct Reader<'a> {
    gguf: &'a Gguf,
    architecture: &'static str,
    weights: Vec<Weight>,
    ids: HashMap<String, WeightId>,
    left_out: HashSet<String>,
    notes: Vec<String>,
}

/// Shape of a tensor, innermost dimension first.
pub(crate) enum Shape {
    /// One vector.
    Vector(u32),
    /// `k` elements a row, `m` rows.
    Matrix(u32, u64),
    /// A matrix an expert: `k`, `m`, experts.
    Experts(u32, u64, u32),
    /// A vector an expert: elements, experts.
    ExpertVectors(u32, u32),
}

impl Shape {
    fn dims(&self) -> Vec<u64> {
        match *self {
            Shape::Vector(n) => vec![n.into()],
            Shape::Matrix(k, m) => vec![k.into(), m],
            Shape::Experts(k, m, e) => vec![k.into(), m, e.into()],
            Shape::ExpertVectors(k, e) => vec![k.into(), e.into()],
        }
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(gguf: &'a Gguf, architecture: &'static str) -> Self {
        Reader {
            gguf,
            architecture,
            weights: vec![],
            ids: HashMap::new(),
            left_out: HashSet::new(),
            notes: vec![],
        }
    }

    pub(crate) fn architecture(&self) -> &'static str {
        self.architecture
    }

    fn full_key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// A key of the architecture that must be there.
    pub(crate) fn key<T: FromValue<'a>>(&self, key: &str) -> Result<T, Error> {
        Ok(self.gguf.metadata().required(&self.full_key(key))?)
    }

    /// A key of the architecture that may be absent.
    pub(crate) fn optional<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, Error> {
        Ok(self.gguf.metadata().optional(&self.full_key(key))?)
    }

    /// A key that may be one value for all layers or an array with a value a layer.
    pub(crate) fn per_layer<T>(&self, key: &str, layers: u32) -> Result<Option<Vec<T>>, Error>
    where
        T: FromValue<'a> + Clone,
        Vec<T>: FromValue<'a>,
    {
        let array = matches!(self.gguf.metadata().get(&self.full_key(key)), Some(zinc_gguf::Value::Array(_)));
        if !array {
            return Ok(self.optional::<T>(key)?.map(|one| vec![one; layers as usize]));
        }
        let values: Vec<T> = self.key(key)?;
        if values.len() < layers as usize {
            return Err(self.bad_value(
                key,
                format!("an array of {}", values.len()),
                format!("{layers} values"),
            ));
        }
        Ok(Some(values))
    }

    /// An integer above zero.
    pub(crate) fn positive(&self, key: &str) -> Result<u32, Error> {
        let value: u32 = self.key(key)?;
        if value == 0 { Err(self.bad_value(key, value, "a number above 0")) } else { Ok(value) }
    }

    /// The error of a key with a senseless value.
    pub(crate) fn bad_value(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::Value { key: self.full_key(key), found: found.to_string(), expected: expected.into() }
    }

    /// The error of a variant that is not supported.
    pub(crate) fn variant(&self, what: impl Into<String>) -> Error {
        Error::Variant { architecture: self.architecture.into(), what: what.into() }
    }

    /// Number of tensors in the file: a bound on the number of layers.
    pub(crate) fn tensor_count(&self) -> usize {
        self.gguf.tensors().len()
    }

    /// Whether the file has a tensor of a layer.
    pub(crate) fn has(&self, layer: u32, name: &str) -> bool {
        self.gguf.tensor(&in_layer(layer, name)).is_some()
    }

    /// Dimension number `axis` of a tensor that must be there.
    pub(crate) fn dim(&self, name: &str, axis: usize) -> Result<u32, Error> {
        let info = self.info(name, Vec::new)?;
        let dim = info.dims.get(axis).copied().unwrap_or(1);
        u32::try_from(dim).map_err(|_| self.bad_dimension(name, "a dimension is too large"))
    }

    /// Dimension number `axis` of a layer's tensor that must be there.
    pub(crate) fn layer_dim(&self, layer: u32, name: &str, axis: usize) -> Result<u32, Error> {
        self.dim(&in_layer(layer, name), axis)
    }

    /// The error of a layer's tensor whose shape can not be right.
    pub(crate) fn bad_layer_dimension(&self, layer: u32, name: &str, what: impl Into<String>) -> Error {
        self.bad_dimension(&in_layer(layer, name), what)
    }

    fn bad_dimension(&self, name: &str, what: impl Into<String>) -> Error {
        let found = self.gguf.tensor(name).map(|t| t.dims.to_vec()).unwrap_or_default();
        Error::Dimension { tensor: name.into(), found, what: what.into() }
    }

    /// A layer's tensor that must be there.
    pub(crate) fn layer(&mut self, layer: u32, name: &str, shape: Shape) -> Result<WeightId, Error> {
        self.tensor(&in_layer(layer, name), shape)
    }

    /// A layer's tensor that may be absent.
    pub(crate) fn layer_optional(
        &mut self,
        layer: u32,
        name: &str,
        shape: Shape,
    ) -> Result<Option<WeightId>, Error> {
        if self.has(layer, name) { self.layer(layer, name, shape).map(Some) } else { Ok(None) }
    }

    /// A tensor that may be absent.
    pub(crate) fn tensor_optional(&mut self, name: &str, shape: Shape) -> Result<Option<WeightId>, Error> {
        if self.gguf.tensor(name).is_some() { self.tensor(name, shape).map(Some) } else { Ok(None) }
    }

    /// A tensor that must be there, of this shape, in a known format.
    pub(crate) fn tensor(&mut self, name: &str, shape: Shape) -> Result<WeightId, Error> {
        if let Some(&id) = self.ids.get(name) {
            return Ok(id);
        }
        let info = self.info(name, || shape.dims())?;
        let (found, expected) = (trimmed(&info.dims), shape.dims());
        if found != trimmed(&expected) {
            let (tensor, layer) = (name.into(), layer_of(name));
            return Err(Error::Shape { tensor, layer, expected, found: info.dims.to_vec() });
        }
        let format = self.format(info)?;
        let (k, m, experts) = match shape {
            Shape::Vector(k) => (k, 1, 1),
            Shape::Matrix(k, m) => (k, m, 1),
            Shape::Experts(k, m, e) => (k, m, e),
            Shape::ExpertVectors(k, e) => (k, 1, e),
        };
        // Every width of a plan is a product of at most these two.
        let m = u32::try_from(m).ok().filter(|m| m.checked_mul(experts).is_some());
        let m = m.ok_or_else(|| self.bad_dimension(name, "too many rows"))?;
        let id = WeightId(self.weights.len() as u32);
        self.weights.push(Weight { tensors: vec![name.into()], format, k, m, experts });
        self.ids.insert(name.into(), id);
        Ok(id)
    }

    /// The values of a small vector that becomes part of the spec itself, where the file has it.
    pub(crate) fn values(&mut self, name: &str, len: u32) -> Result<Option<Vec<f32>>, Error> {
        if self.gguf.tensor(name).is_none() {
            return Ok(None);
        }
        let info = self.info(name, || vec![len.into()])?;
        if trimmed(&info.dims) != [u64::from(len)] {
            let (tensor, layer) = (name.into(), layer_of(name));
            return Err(Error::Shape {
                tensor,
                layer,
                expected: vec![len.into()],
                found: info.dims.to_vec(),
            });
        }
        let mut values = vec![0.0; len as usize];
        self.format(info)?.decode_row(self.gguf.data(info), &mut values);
        self.left_out.insert(name.into());
        Ok(Some(values))
    }

    fn info(&self, name: &str, expected: impl Fn() -> Vec<u64>) -> Result<&'a TensorInfo, Error> {
        self.gguf.tensor(name).ok_or_else(|| Error::MissingTensor {
            tensor: name.into(),
            layer: layer_of(name),
            expected: expected(),
        })
    }

    fn format(&self, info: &TensorInfo) -> Result<zinc_quant::FormatRef, Error> {
        zinc_quant::by_ggml_type(info.ggml_type.id()).ok_or_else(|| Error::Format {
            tensor: info.name.clone(),
            format: info.ggml_type.name().into(),
            known: zinc_quant::formats().iter().map(|f| f.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// Leaves out all tensors of layers from `first` on: layers that predict further tokens.
    pub(crate) fn leave_out_layers_from(&mut self, first: u32) {
        let names = self.gguf.tensors().iter().map(|t| &t.name);
        let out: Vec<String> = names.filter(|n| layer_of(n).is_some_and(|l| l >= first)).cloned().collect();
        if !out.is_empty() {
            self.notes.push(format!(
                "{} tensors from `{}` on predict further tokens (MTP) and are left out",
                out.len(),
                out[0]
            ));
        }
        self.left_out.extend(out);
    }

    /// The tensors that were read and the notes; an error where the file has tensors that nobody asked for.
    pub(crate) fn finish(self) -> Result<(Vec<Weight>, Vec<String>), Error> {
        let unused: Vec<&str> = self
            .gguf
            .tensors()
            .iter()
            .map(|t| t.name.as_str())
            .filter(|n| !self.ids.contains_key(*n) && !self.left_out.contains(*n))
            .collect();
        if let Some(first) = unused.first() {
            return Err(Error::UnusedTensors {
                architecture: self.architecture.into(),
                count: unused.len(),
                first: (*first).into(),
            });
        }
        Ok((self.weights, self.notes))
    }
}

fn in_layer(layer: u32, name: &str) -> String {
    format!("blk.{layer}.{name}")
}

fn layer_of(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Without trailing dimensions of 1: writers differ in whether they keep them.
fn trimmed(dims: &[u64]) -> &[u64] {
    let end = dims.iter().rposition(|&d| d != 1).map_or(1, |last| last + 1);
    &dims[..end.min(dims.len())]
}
