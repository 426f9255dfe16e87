//! The stack machine: bytes in, plain values out.

use std::collections::HashMap;
use std::ops::Range;

/// What stands on the stack. Texts lie in the file's bytes, everything larger in the list of objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Text { begin: usize, end: usize },
    Global(Global),
    Object(usize),
}

/// The things that a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    CsrMatrix,
    Reconstruct,
    NdArray,
    DType,
    DefaultDict,
    List,
}

impl Global {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"scipy.sparse.csr csr_matrix" => Some(Self::CsrMatrix),
            b"numpy.core.multiarray _reconstruct" => Some(Self::Reconstruct),
            b"numpy ndarray" => Some(Self::NdArray),
            b"numpy dtype" => Some(Self::DType),
            b"collections defaultdict" => Some(Self::DefaultDict),
            b"__builtin__ list" => Some(Self::List),
            _ => None,
        }
    }
}

/// What an array's numbers are stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    I1,
    I4,
    I8,
    F4,
    F8,
}

impl Number {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"i1" => Some(Self::I1),
            b"i4" => Some(Self::I4),
            b"i8" => Some(Self::I8),
            b"f4" => Some(Self::F4),
            b"f8" => Some(Self::F8),
            _ => None,
        }
    }

    const fn n_bytes(self) -> usize {
        match self {
            Self::I1 => 1,
            Self::I4 | Self::F4 => 4,
            Self::I8 | Self::F8 => 8,
        }
    }

    /// The numbers in little-endian `bytes`.
    pub(super) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::I1 => bytes.iter().map(|&byte| f64::from(byte.cast_signed())).collect(),
            Self::I4 => each(bytes, |word| f64::from(i32::from_le_bytes(word))),
            Self::I8 => each(bytes, |word| i64::from_le_bytes(word) as f64),
            Self::F4 => each(bytes, |word| f64::from(f32::from_le_bytes(word))),
            Self::F8 => each(bytes, f64::from_le_bytes),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&word| number(word)).collect()
}

/// What does not fit on the stack.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// A dtype of which only the letter is known yet, or one that is known to be little-endian too.
    DType(Number),
    /// What `_reconstruct` gives before its state is set.
    EmptyArray,
    Array {
        shape: Vec<usize>,
        dtype: Number,
        is_fortran: bool,
        bytes: Range<usize>,
    },
    Instance {
        class: Global,
        state: Value,
    },
}

/// Objects that any file may have.
const FREE_OBJECTS: usize = 1024;
/// Bytes of a file for each further object; a node without edges takes the fewest, about ten.
const BYTES_AN_OBJECT: usize = 4;

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) problem: String,
}

/// The machine and its file.
pub(super) struct Machine {
    bytes: Vec<u8>,
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    objects: Vec<Object>,
}

type Outcome<T> = Result<T, String>;

impl Machine {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let (stack, marks, objects) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, at: 0, stack, marks, memo: HashMap::new(), objects }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn object(&self, at: usize) -> &Object {
        &self.objects[at]
    }

    /// Runs to the end, and gives back the one value that is left.
    pub(super) fn run(&mut self) -> Result<Value, Fault> {
        loop {
            let at = self.at;
            match self.step() {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(value),
                Err(problem) => return Err(Fault { at, problem }),
            }
        }
    }

    /// One opcode; the value when it was the last.
    fn step(&mut self) -> Outcome<Option<Value>> {
        let opcode = self.take(1)?[0];
        match opcode {
            0x80 => self.check_protocol()?,
            b'.' => return self.stop().map(Some),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' | b'M' | b'J' => self.push_int(opcode)?,
            b'U' | b'T' => self.push_text(opcode)?,
            b'c' => self.push_global()?,
            b'(' => self.marks.push(self.stack.len()),
            b')' => self.push_object(Object::Tuple(Vec::new()))?,
            0x85..=0x87 => {
                let items = self.pop_n(usize::from(opcode - 0x84))?;
                self.push_object(Object::Tuple(items))?;
            }
            b't' => {
                let items = self.pop_marked()?;
                self.push_object(Object::Tuple(items))?;
            }
            b']' => self.push_object(Object::List(Vec::new()))?,
            b'a' => self.append(1)?,
            b'e' => self.append_marked()?,
            b'}' => self.push_object(Object::Dict(Vec::new()))?,
            b's' => {
                let items = self.pop_n(2)?;
                self.set_items(&items)?;
            }
            b'u' => {
                let items = self.pop_marked()?;
                self.set_items(&items)?;
            }
            b'q' | b'r' | b'h' | b'j' => self.memo(opcode)?,
            b'R' => self.reduce()?,
            0x81 => self.new_instance()?,
            b'b' => self.build()?,
            _ => return Err(format!("opcode {opcode:#04x}, which is not allowed")),
        }
        Ok(None)
    }

    fn take(&mut self, n_bytes: usize) -> Outcome<&[u8]> {
        let end = self.at.checked_add(n_bytes).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or("the file ends within it")?;
        let begin = std::mem::replace(&mut self.at, end);
        Ok(&self.bytes[begin..end])
    }

    fn word(&mut self) -> Outcome<[u8; 4]> {
        let bytes = self.take(4)?;
        Ok([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn check_protocol(&mut self) -> Outcome<()> {
        let version = self.take(1)?[0];
        match version {
            2 if self.at == 2 => Ok(()),
            _ => Err(format!("protocol {version} where 2, at the beginning, is known")),
        }
    }

    fn stop(&mut self) -> Outcome<Value> {
        let is_end = self.at == self.bytes.len() && self.marks.is_empty();
        match self.stack[..] {
            [value] if is_end => Ok(value),
            _ => Err("an end with something left over".to_owned()),
        }
    }

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Keeps an object, of which a file has no more than a share of its bytes: a byte that makes one costs
    /// memory.
    fn push_object(&mut self, object: Object) -> Outcome<()> {
        if self.objects.len() > FREE_OBJECTS + self.bytes.len() / BYTES_AN_OBJECT {
            return Err(
                "more lists and tuples than a file of this size is known to have".to_owned()
            );
        }
        self.objects.push(object);
        self.push(Value::Object(self.objects.len() - 1));
        Ok(())
    }

    /// Values above the last mark, or all, are there to be taken.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop_n(&mut self, n_values: usize) -> Outcome<Vec<Value>> {
        let begin = self.stack.len().checked_sub(n_values).filter(|&begin| begin >= self.floor());
        let begin = begin.ok_or("values that are not there")?;
        Ok(self.stack.split_off(begin))
    }

    fn pop(&mut self) -> Outcome<Value> {
        self.pop_n(1).map(|values| values[0])
    }

    fn pop_marked(&mut self) -> Outcome<Vec<Value>> {
        let mark = self.marks.pop().ok_or("a mark that is not there")?;
        Ok(self.stack.split_off(mark))
    }

    fn push_int(&mut self, opcode: u8) -> Outcome<()> {
        let value = match opcode {
            b'K' => i64::from(self.take(1)?[0]),
            b'M' => {
                let bytes = self.take(2)?;
                i64::from(u16::from_le_bytes([bytes[0], bytes[1]]))
            }
            _ => i64::from(i32::from_le_bytes(self.word()?)),
        };
        self.push(Value::Int(value));
        Ok(())
    }

    fn push_text(&mut self, opcode: u8) -> Outcome<()> {
        let n_bytes = match opcode {
            b'U' => usize::from(self.take(1)?[0]),
            _ => {
                let n_bytes = i32::from_le_bytes(self.word()?);
                usize::try_from(n_bytes).map_err(|_| "a text of a length below 0")?
            }
        };
        let begin = self.at;
        self.take(n_bytes)?;
        self.push(Value::Text { begin, end: self.at });
        Ok(())
    }

    fn push_global(&mut self) -> Outcome<()> {
        let rest = &self.bytes[self.at..];
        let mut ends = memchr::memchr_iter(b'\n', rest);
        let (Some(module), Some(name)) = (ends.next(), ends.next()) else {
            return Err("a global without its two lines".to_owned());
        };
        let words =
            [&rest[..module], &rest[module + 1..name]].map(|word| &word[..word.len().min(64)]);
        let words = words.join(&b' ');
        let global = Global::named(&words).ok_or_else(|| {
            let words = crate::error::escaped(&String::from_utf8_lossy(&words));
            format!("the global `{words}`, which is not allowed")
        })?;
        self.at += name + 1;
        self.push(Value::Global(global));
        Ok(())
    }

    fn memo(&mut self, opcode: u8) -> Outcome<()> {
        let key = match opcode {
            b'q' | b'h' => u32::from(self.take(1)?[0]),
            _ => u32::from_le_bytes(self.word()?),
        };
        if matches!(opcode, b'q' | b'r') {
            let top = self.stack[self.floor()..].last().ok_or("values that are not there")?;
            self.memo.insert(key, *top);
        } else {
            let value = *self.memo.get(&key).ok_or("a remembered value that is not there")?;
            self.push(value);
        }
        Ok(())
    }

    fn append(&mut self, n_values: usize) -> Outcome<()> {
        let values = self.pop_n(n_values)?;
        self.extend(&values)
    }

    fn append_marked(&mut self) -> Outcome<()> {
        let values = self.pop_marked()?;
        self.extend(&values)
    }

    /// The object on top of the stack, which stays there.
    fn top_object(&mut self) -> Outcome<&mut Object> {
        match self.stack[self.floor()..].last() {
            Some(&Value::Object(at)) => Ok(&mut self.objects[at]),
            _ => Err("something to change that is not there".to_owned()),
        }
    }

    fn extend(&mut self, values: &[Value]) -> Outcome<()> {
        match self.top_object()? {
            Object::List(items) => items.extend(values),
            _ => return Err("items for something other than a list".to_owned()),
        }
        Ok(())
    }

    fn set_items(&mut self, values: &[Value]) -> Outcome<()> {
        let (pairs, []) = values.as_chunks::<2>() else {
            return Err("a key without a value".to_owned());
        };
        match self.top_object()? {
            Object::Dict(entries) => entries.extend(pairs.iter().map(|&[key, value]| (key, value))),
            _ => return Err("entries for something other than a map".to_owned()),
        }
        Ok(())
    }

    fn tuple(&self, value: Value) -> Outcome<&[Value]> {
        match value {
            Value::Object(at) => match &self.objects[at] {
                Object::Tuple(items) => Ok(items),
                _ => Err("something other than a tuple".to_owned()),
            },
            _ => Err("something other than a tuple".to_owned()),
        }
    }

    /// Three calls there are: an empty array, a dtype, and a map whose missing entries are lists.
    fn reduce(&mut self) -> Outcome<()> {
        let arguments = self.pop()?;
        let callee = self.pop()?;
        let arguments = self.tuple(arguments)?;
        let object = match (callee, arguments) {
            (
                Value::Global(Global::Reconstruct),
                &[Value::Global(Global::NdArray), Value::Object(_), Value::Text { .. }],
            ) => Object::EmptyArray,
            (Value::Global(Global::DType), &[Value::Text { begin, end }, ..]) => {
                let name = &self.bytes[begin..end];
                Object::DType(Number::named(name).ok_or("an array of other things than numbers")?)
            }
            (Value::Global(Global::DefaultDict), &[Value::Global(Global::List)]) => {
                Object::Dict(Vec::new())
            }
            _ => return Err("a call that is not allowed".to_owned()),
        };
        self.push_object(object)
    }

    fn new_instance(&mut self) -> Outcome<()> {
        let arguments = self.pop()?;
        let class = self.pop()?;
        match (class, self.tuple(arguments)?) {
            (Value::Global(class @ Global::CsrMatrix), []) => {
                self.push_object(Object::Instance { class, state: Value::None })
            }
            _ => Err("an object that is not allowed".to_owned()),
        }
    }

    /// Sets the state of what was made empty.
    fn build(&mut self) -> Outcome<()> {
        let state = self.pop()?;
        let built = match self.top_object()?.clone() {
            Object::EmptyArray => self.array(state)?,
            Object::DType(number) => {
                // (version, byte order, ...): the rest is for dtypes with fields.
                let is_little = match self.tuple(state)? {
                    [Value::Int(_), Value::Text { begin, end }, ..] => {
                        matches!(&self.bytes[*begin..*end], b"<" | b"|")
                    }
                    _ => false,
                };
                if !is_little {
                    return Err("a dtype that is not little-endian".to_owned());
                }
                Object::DType(number)
            }
            Object::Instance { class, state: Value::None } => Object::Instance { class, state },
            _ => return Err("a state for something that has none".to_owned()),
        };
        *self.top_object()? = built;
        Ok(())
    }

    /// An array of the state (version, shape, dtype, Fortran order, bytes).
    fn array(&self, state: Value) -> Outcome<Object> {
        let &[_, Value::Object(shape), Value::Object(dtype), order, data] = self.tuple(state)?
        else {
            return Err("an array of another state".to_owned());
        };
        let (Value::Bool(is_fortran), Value::Text { begin, end }) = (order, data) else {
            return Err("an array of another state".to_owned());
        };
        let Object::DType(dtype) = self.objects[dtype] else {
            return Err("an array without a dtype".to_owned());
        };
        let extent = |value: &Value| match *value {
            Value::Int(extent) => usize::try_from(extent).ok(),
            _ => None,
        };
        let shape: Option<Vec<usize>> =
            self.tuple(Value::Object(shape))?.iter().map(extent).collect();
        let shape = shape.ok_or("an array whose shape is not numbers from 0")?;
        let n_bytes =
            shape.iter().try_fold(dtype.n_bytes(), |product, &extent| product.checked_mul(extent));
        if n_bytes != Some(end - begin) {
            return Err(format!("an array of shape {shape:?} with {} bytes", end - begin));
        }
        Ok(Object::Array { shape, dtype, is_fortran, bytes: begin..end })
    }
}
