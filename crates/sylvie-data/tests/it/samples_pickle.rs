//! A small Planetoid set, pickled as Python 2 did it.

use crate::samples::{Sample, concat};

/// Writes the opcodes that Python 2's pickle module writes for these files.
#[derive(Default)]
pub(crate) struct Pickler {
    bytes: Vec<u8>,
}

impl Pickler {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0x80, 2] }
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn global(self, module: &str, name: &str) -> Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    fn int(self, value: u16) -> Self {
        self.raw(b"M").raw(&value.to_le_bytes())
    }

    fn text(self, text: &[u8]) -> Self {
        self.raw(b"T").raw(&(text.len() as u32).to_le_bytes()).raw(text)
    }

    pub(crate) fn array(self, shape: &[u16], dtype: &str, bytes: &[u8]) -> Self {
        let built = self
            .global("numpy.core.multiarray", "_reconstruct")
            .global("numpy", "ndarray")
            .raw(b"K\x00\x85U\x01b\x87R(K\x01(");
        let shaped = shape.iter().fold(built, |pickler, &extent| pickler.int(extent));
        shaped
            .raw(b"t")
            .global("numpy", "dtype")
            .raw(b"U\x02")
            .raw(dtype.as_bytes())
            .raw(b"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
            .text(bytes)
            .raw(b"tb")
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.raw(b".").bytes
    }
}

/// A csr_matrix with a single one in column `row % 4` of each row, columns given as they are.
pub(crate) fn csr(n_rows: u16) -> Vec<u8> {
    let indptr: Vec<i32> = (0..=i32::from(n_rows)).collect();
    let indices: Vec<i32> = (0..i32::from(n_rows)).map(|row| row % 4).collect();
    let ones = vec![1.0_f32; usize::from(n_rows)];
    Pickler::new()
        .global("scipy.sparse.csr", "csr_matrix")
        .raw(b")\x81q\x02}q\x03(U\x06formatU\x03csrU\x06_shape")
        .int(n_rows)
        .int(4)
        .raw(b"\x86U\x06indptr")
        .array(&[n_rows + 1], "i4", &concat(&indptr, i32::to_le_bytes))
        .raw(b"U\x07indices")
        .array(&[n_rows], "i4", &concat(&indices, i32::to_le_bytes))
        .raw(b"U\x04data")
        .array(&[n_rows], "f4", &concat(&ones, f32::to_le_bytes))
        .raw(b"ub")
        .end()
}

/// One-hot rows of `n_rows` nodes, of which the last has no class.
pub(crate) fn one_hot(n_rows: u16) -> Vec<u8> {
    let flag = |at: u16| i32::from(at % 3 == (at / 3) % 3 && at / 3 + 1 < n_rows);
    let flags: Vec<i32> = (0..n_rows * 3).map(flag).collect();
    Pickler::new().array(&[n_rows, 3], "i4", &concat(&flags, i32::to_le_bytes)).end()
}

pub(crate) fn graph(n_nodes: u16) -> Vec<u8> {
    let head = Pickler::new()
        .global("collections", "defaultdict")
        .global("__builtin__", "list")
        .raw(b"\x85Rq\x03(");
    let ring = (0..n_nodes).fold(head, |pickler, node| {
        pickler.int(node).raw(b"]r\x00\x01\x00\x00(").int((node + 1) % n_nodes).int(node).raw(b"e")
    });
    ring.raw(b"u").end()
}

/// 510 first nodes of which 10 train, and three test nodes with a gap: 514 nodes, of which 512 has no row.
const N_FIRST: u16 = 510;

pub(crate) fn ring() -> Sample {
    let files = vec![
        ("ind.ring.x", csr(10)),
        ("ind.ring.y", one_hot(10)),
        ("ind.ring.allx", csr(N_FIRST)),
        ("ind.ring.ally", one_hot(N_FIRST)),
        ("ind.ring.tx", csr(3)),
        ("ind.ring.ty", one_hot(3)),
        ("ind.ring.graph", graph(514)),
        ("ind.ring.test.index", b"513\n510\n511\n".to_vec()),
    ];
    Sample { files, entry: "ind.ring" }
}
