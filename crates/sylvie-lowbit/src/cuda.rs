//! The codec on a CUDA device: the same bytes, from and to matrices that stay there.
//!
//! The kernels work on rows side by side; [`crate::Plain`] is their specification, byte for byte. A status
//! word on the device takes the first row that they refuse, and is read back: the calls wait for the device.
#![allow(unsafe_code)]

use alloc::vec;

use sylvie_device::{Arg, Device, DeviceError, Memory};
use sylvie_kernels::{
    DECODE_1, DECODE_2, DECODE_4, DECODE_8, DECODE_ADD_1, DECODE_ADD_2, DECODE_ADD_4, DECODE_ADD_8,
    DECODE_ADD_BF16, DECODE_ADD_F16, DECODE_ADD_F32, DECODE_BF16, DECODE_F16, DECODE_F32, ENCODE_1,
    ENCODE_2, ENCODE_4, ENCODE_8, ENCODE_BF16, ENCODE_F16, ENCODE_F32, Kernel, MAX_COLUMNS, Reason,
    Refusal, SELECT_ROWS, refusal,
};
use sylvie_random::Family;

use crate::{DecodeError, EncodeError, MetadataType, RowCodec, Width};

/// A matrix on a device: so many rows, each of so many `f32`.
///
/// # Example
/// ```no_run
/// use sylvie_device::Device;
/// use sylvie_lowbit::{DeviceList, DeviceRows, RowCodec, Width};
/// use sylvie_random::{Coordinates, Stream};
///
/// let device = Device::open(0)?;
/// let upload = |words: [u32; 4]| device.upload(words.map(u32::to_le_bytes).as_flattened());
/// // Four rows of one column, and what they are called.
/// let values = upload([0.0, 0.5, 1.0, 1.5].map(f32::to_bits))?;
/// let numbers = upload([10, 11, 12, 13])?;
/// let x = DeviceRows { values: &values, n_rows: 4, n_cols: 1 };
/// let keys = DeviceList { numbers: &numbers, len: 4 };
///
/// let (codec, draws) = (RowCodec::new(Width::One), Coordinates::new(7, Stream::Rounding).family());
/// let mut message = device.allocate(codec.message_bytes(4, 1))?;
/// codec.encode_on_device(x, None, keys, draws, &mut message)??;
/// let mut decoded = device.allocate(4 * 4)?;
/// codec.decode_on_device(&message, (4, 1), &mut decoded)??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceRows<'a> {
    /// Its values, row after row.
    pub values: &'a Memory,
    /// Number of rows.
    pub n_rows: usize,
    /// Number of columns.
    pub n_cols: usize,
}

/// Rows of a list on a device: their numbers as `u32`, all below the number of rows that they are of.
#[derive(Clone, Copy, Debug)]
pub struct DeviceList<'a> {
    /// The numbers.
    pub numbers: &'a Memory,
    /// How many.
    pub len: usize,
}

impl RowCodec {
    /// Encodes rows of a matrix on its device; row `i` of the message draws at key `keys[i]`.
    ///
    /// The bytes are those of [`Self::encode_rows`], or, without `rows`, of [`Self::encode_all`].
    ///
    /// # Shapes
    /// `keys` as many as `rows`, or as `x` has rows; `out` `message_bytes` of that many rows.
    /// # Errors
    /// Outside, what the device says; inside, a row that cannot be encoded.
    /// # Panics
    /// If the shapes do not fit, or there are more than [`MAX_COLUMNS`] columns.
    pub fn encode_on_device(
        &self,
        x: DeviceRows<'_>,
        rows: Option<DeviceList<'_>>,
        keys: DeviceList<'_>,
        draws: Family,
        out: &mut Memory,
    ) -> Result<Result<(), EncodeError>, DeviceError> {
        let (n_rows, n_cols) = (keys.len, x.n_cols);
        assert_eq!(rows.map_or(x.n_rows, |rows| rows.len), n_rows, "rows to encode and their keys");
        assert_holds(x.values, x.n_rows, n_cols);
        self.assert_message_len(out.n_bytes(), n_rows, n_cols);
        let device = x.values.device().clone();
        if n_cols == 0 {
            // Zero points and scales of 0, which all types write as zeros.
            return device.fill(0, out).map(Ok);
        }
        let mut status = accepted(&device)?;
        let listed = rows.map_or(Arg::Null, |rows| Arg::Read(rows.numbers));
        let (n_rows_arg, n_cols_arg) = (count(n_rows), columns(n_cols));
        let [key0, key1] = draws.key;
        // SAFETY: the matrix, the lists and the message are as large as the kernels are told (asserted;
        // numbers of rows are the caller's promise by `DeviceList`), and the status is one word.
        unsafe {
            match encoder(self.width) {
                (kernel, true) => device.launch(
                    kernel,
                    (n_rows, n_cols),
                    &mut [
                        Arg::Read(x.values),
                        listed,
                        Arg::Read(keys.numbers),
                        Arg::Write(out),
                        Arg::Write(&mut status),
                        Arg::U32(n_rows_arg),
                        Arg::U32(n_cols_arg),
                        Arg::U32(key0),
                        Arg::U32(key1),
                        Arg::U32(draws.epoch),
                        Arg::U32(draws.tag),
                        Arg::U32(metadata_number(self.metadata)),
                    ],
                )?,
                (kernel, false) => device.launch(
                    kernel,
                    (n_rows, n_cols),
                    &mut [
                        Arg::Read(x.values),
                        listed,
                        Arg::Write(out),
                        Arg::Write(&mut status),
                        Arg::U32(n_rows_arg),
                        Arg::U32(n_cols_arg),
                    ],
                )?,
            }
        }
        Ok(match first_refused(&device, &status)? {
            Some(refused) => Err(self.encode_error(refused)),
            None => Ok(()),
        })
    }

    /// Decodes a message on its device into all rows of `out`: [`Self::decode_rows`], bit for bit.
    ///
    /// # Shapes
    /// `out` holds `n_rows x n_cols` values.
    /// # Errors
    /// Outside, what the device says; inside, a message that is not one of that many rows.
    /// # Panics
    /// If `out` has another size, or there are more than [`MAX_COLUMNS`] columns.
    pub fn decode_on_device(
        &self,
        message: &Memory,
        (n_rows, n_cols): (usize, usize),
        out: &mut Memory,
    ) -> Result<Result<(), DecodeError>, DeviceError> {
        assert_holds(out, n_rows, n_cols);
        self.decode_with(decoder(self.width, Put::Assign), message, (n_rows, n_cols), None, out)
    }

    /// Decodes a message on its device and adds row `i` to row `rows[i]` of `out`:
    /// [`Self::decode_add_rows`], bit for bit, for rows that are distinct.
    ///
    /// # Shapes
    /// `out` holds any number of rows of `n_cols` values.
    /// # Errors
    /// As [`Self::decode_on_device`]; then some rows may have been added.
    /// # Panics
    /// If there are more than [`MAX_COLUMNS`] columns.
    pub fn decode_add_on_device(
        &self,
        message: &Memory,
        n_cols: usize,
        rows: DeviceList<'_>,
        out: &mut Memory,
    ) -> Result<Result<(), DecodeError>, DeviceError> {
        self.decode_with(
            decoder(self.width, Put::Add),
            message,
            (rows.len, n_cols),
            Some(rows),
            out,
        )
    }

    fn decode_with(
        &self,
        kernel: &'static Kernel,
        message: &Memory,
        (n_rows, n_cols): (usize, usize),
        rows: Option<DeviceList<'_>>,
        out: &mut Memory,
    ) -> Result<Result<(), DecodeError>, DeviceError> {
        let device = out.device().clone();
        let (expected, found) = (self.message_bytes(n_rows, n_cols), message.n_bytes());
        if found != expected {
            return Ok(Err(DecodeError::WrongLength { expected, found }));
        }
        if n_cols == 0 {
            // Nothing but metadata, which is checked all the same.
            let mut bytes = vec![0; found];
            device.read(message, &mut bytes)?;
            return Ok(self.decode_rows(&bytes, 0, &mut []));
        }
        let mut status = accepted(&device)?;
        let mut args = vec![
            Arg::Read(message),
            rows.map_or(Arg::Null, |rows| Arg::Read(rows.numbers)),
            Arg::Write(out),
            Arg::Write(&mut status),
            Arg::U32(count(n_rows)),
            Arg::U32(columns(n_cols)),
        ];
        if self.width.is_quantized() {
            args.push(Arg::U32(metadata_number(self.metadata)));
        }
        // SAFETY: the message is as long as its shape says (checked), the matrix as large (asserted, or,
        // with a list, the caller's promise), and the status is one word.
        unsafe { device.launch(kernel, (n_rows, n_cols), &mut args)? };
        drop(args);
        let refused = first_refused(&device, &status)?;
        Ok(refused.map_or(Ok(()), |Refusal { row, reason, column }| {
            let (row, column) = (row as usize, column as usize);
            Err(match reason {
                Reason::Metadata => DecodeError::InvalidMetadata { row },
                _ => DecodeError::NotFinite { row, column },
            })
        }))
    }

    /// Copies the encoded rows `positions` of a message into one of their own, on its device:
    /// [`Self::select_rows`].
    ///
    /// # Shapes
    /// `out` `message_bytes` of as many rows as there are positions.
    /// # Errors
    /// As [`Self::decode_on_device`].
    /// # Panics
    /// If `out` has another length.
    pub fn select_on_device(
        &self,
        message: &Memory,
        (n_rows, n_cols): (usize, usize),
        positions: DeviceList<'_>,
        out: &mut Memory,
    ) -> Result<Result<(), DecodeError>, DeviceError> {
        self.assert_message_len(out.n_bytes(), positions.len, n_cols);
        let (expected, found) = (self.message_bytes(n_rows, n_cols), message.n_bytes());
        if found != expected {
            return Ok(Err(DecodeError::WrongLength { expected, found }));
        }
        let (metadata_bytes, payload_bytes) =
            (self.row_metadata_bytes(), self.row_payload_bytes(n_cols));
        let device = out.device().clone();
        // SAFETY: both messages are as long as their shapes say (checked and asserted), and positions are
        // below `n_rows` by `DeviceList`.
        unsafe {
            device.launch(
                &SELECT_ROWS,
                (positions.len, payload_bytes.div_ceil(4).max(1)),
                &mut [
                    Arg::Read(message),
                    Arg::Read(positions.numbers),
                    Arg::Write(out),
                    Arg::U32(count(n_rows)),
                    Arg::U32(count(positions.len)),
                    Arg::U32(metadata_bytes as u32),
                    Arg::U64(payload_bytes as u64),
                ],
            )?;
        }
        Ok(Ok(()))
    }

    fn encode_error(&self, Refusal { row, reason, column }: Refusal) -> EncodeError {
        let (row, column) = (row as usize, column as usize);
        match reason {
            Reason::NotFinite => EncodeError::NotFinite { row, column },
            Reason::Metadata => EncodeError::MetadataOverflow { row, metadata: self.metadata },
            Reason::Range => EncodeError::RangeOverflow { row },
            Reason::ValueOverflow => EncodeError::ValueOverflow { row, column, width: self.width },
        }
    }
}

/// Whether decoded values replace or are added.
#[derive(Clone, Copy)]
enum Put {
    Assign,
    Add,
}

/// The kernel, and whether it draws.
fn encoder(width: Width) -> (&'static Kernel, bool) {
    match width {
        Width::One => (&ENCODE_1, true),
        Width::Two => (&ENCODE_2, true),
        Width::Four => (&ENCODE_4, true),
        Width::Eight => (&ENCODE_8, true),
        Width::F16 => (&ENCODE_F16, false),
        Width::Bf16 => (&ENCODE_BF16, false),
        Width::F32 => (&ENCODE_F32, false),
    }
}

fn decoder(width: Width, put: Put) -> &'static Kernel {
    match (width, put) {
        (Width::One, Put::Assign) => &DECODE_1,
        (Width::Two, Put::Assign) => &DECODE_2,
        (Width::Four, Put::Assign) => &DECODE_4,
        (Width::Eight, Put::Assign) => &DECODE_8,
        (Width::F16, Put::Assign) => &DECODE_F16,
        (Width::Bf16, Put::Assign) => &DECODE_BF16,
        (Width::F32, Put::Assign) => &DECODE_F32,
        (Width::One, Put::Add) => &DECODE_ADD_1,
        (Width::Two, Put::Add) => &DECODE_ADD_2,
        (Width::Four, Put::Add) => &DECODE_ADD_4,
        (Width::Eight, Put::Add) => &DECODE_ADD_8,
        (Width::F16, Put::Add) => &DECODE_ADD_F16,
        (Width::Bf16, Put::Add) => &DECODE_ADD_BF16,
        (Width::F32, Put::Add) => &DECODE_ADD_F32,
    }
}

fn metadata_number(metadata: MetadataType) -> u32 {
    match metadata {
        MetadataType::F32 => 0,
        MetadataType::Bf16 => 1,
        MetadataType::F16 => 2,
    }
}

/// A status word that nothing has been refused in.
fn accepted(device: &Device) -> Result<Memory, DeviceError> {
    let mut status = device.allocate(size_of::<u64>())?;
    // All bits set, as `sylvie_kernels::ACCEPTED` is.
    device.fill(0xff, &mut status)?;
    Ok(status)
}

fn first_refused(device: &Device, status: &Memory) -> Result<Option<Refusal>, DeviceError> {
    let mut word = [0; size_of::<u64>()];
    device.read(status, &mut word)?;
    Ok(refusal(u64::from_le_bytes(word)))
}

fn assert_holds(matrix: &Memory, n_rows: usize, n_cols: usize) {
    let (expected, found) = (n_rows * n_cols * size_of::<f32>(), matrix.n_bytes());
    assert!(found == expected, "a matrix of {n_rows} x {n_cols} in {found} bytes, not {expected}");
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| panic!("{n} rows, more than a kernel counts"))
}

fn columns(n: usize) -> u32 {
    assert!(n <= MAX_COLUMNS as usize, "{n} columns, more than {MAX_COLUMNS}");
    n as u32
}
