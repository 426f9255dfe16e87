//! Weights, their gradients and the optimiser.

use sylvie_random::{Coordinates, Family, Pass, Stream, unit_f32};
use sylvie_tensor::{AdamStep, Backend};

use crate::config::{ModelConfig, Start, TensorSpec};

/// All weight tensors of a network, a layer at a time.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind, TensorSpec, Weights};
/// use sylvie_tensor::CpuBackend;
///
/// let config = ModelConfig::new(ModelKind::Gcn, vec![64, 32, 10]);
/// let specs: Vec<(String, TensorSpec)> = Weights::<CpuBackend>::specs(&config);
/// let names: Vec<&str> = specs.iter().map(|(name, _)| name.as_str()).collect();
/// assert_eq!(names[..2], ["layers.0.w", "layers.0.b"]);
/// assert_eq!(names[2..4], ["layers.0.ln_w", "layers.0.ln_b"]); // LayerNorm between the layers
/// assert_eq!((specs[0].1.n_rows, specs[0].1.n_cols), (64, 32));
///
/// let backend = CpuBackend::new(1);
/// let tensors = Weights::glorot(&backend, &config, 7).to_host(&backend);
/// assert!(config.fits(&tensors));
/// assert_eq!(Weights::from_host(&backend, &config, &tensors).to_host(&backend), tensors);
/// ```
pub struct Weights<B: Backend> {
    layers: Vec<Vec<B::Matrix>>,
}

/// Gradients, shaped like the weights.
///
/// # Example
/// ```
/// use sylvie_gnn::Gradients;
/// use sylvie_tensor::{Backend, CpuBackend};
///
/// // The gradients of a layer of two tensors are added up over ranks as one vector.
/// let backend = CpuBackend::new(1);
/// let mut layer = vec![backend.upload(1, 2, &[1.0, 2.0]), backend.upload(1, 1, &[3.0])];
/// let mut values = Vec::new();
/// Gradients::<CpuBackend>::append_layer(&backend, &layer, &mut values);
/// values.iter_mut().for_each(|value| *value *= 2.0); // what two ranks with the same gradients get
/// Gradients::<CpuBackend>::assign_layer(&backend, &mut layer, &values);
/// assert_eq!(Gradients::<CpuBackend>::new(vec![layer]).flatten(&backend), [2.0, 4.0, 6.0]);
/// ```
pub struct Gradients<B: Backend> {
    layers: Vec<Vec<B::Matrix>>,
}

impl<B: Backend> Weights<B> {
    /// Glorot-uniform weights, zero biases, LayerNorm gains of one: a function of the seed.
    #[must_use]
    pub fn glorot(backend: &B, config: &ModelConfig, seed: u64) -> Self {
        let layer_tensors = |layer: usize| {
            let tensors = config.tensors(layer).into_iter().zip(0..);
            tensors.map(move |(spec, slot)| {
                let coordinates = Coordinates::new(seed, Stream::Weights);
                let draws = coordinates.at(slot, layer as u8, Pass::Forward).family();
                let values = initial_values(&spec, draws);
                backend.upload(spec.n_rows, spec.n_cols, &values)
            })
        };
        Self { layers: (0..config.n_layers()).map(|l| layer_tensors(l).collect()).collect() }
    }

    /// Takes host values a tensor, in the order of [`Weights::specs`].
    ///
    /// # Panics
    /// If there is another number of tensors, or a tensor has another number of values.
    #[must_use]
    pub fn from_host(backend: &B, config: &ModelConfig, tensors: &[Vec<f32>]) -> Self {
        let mut rest = tensors;
        let mut layers = Vec::with_capacity(config.n_layers());
        for layer in 0..config.n_layers() {
            let specs = config.tensors(layer);
            let n_specs = specs.len();
            assert!(rest.len() >= n_specs, "{} tensors for layer {layer} of {n_specs}", rest.len());
            let (own, after) = rest.split_at(n_specs);
            let upload = |(spec, values): (TensorSpec, &Vec<f32>)| {
                backend.upload(spec.n_rows, spec.n_cols, values)
            };
            layers.push(specs.into_iter().zip(own).map(upload).collect());
            rest = after;
        }
        assert!(rest.is_empty(), "{} tensors of {} are left over", rest.len(), tensors.len());
        Self { layers }
    }

    /// Full name (`layers.0.w`) and shape of every tensor, in order.
    #[must_use]
    pub fn specs(config: &ModelConfig) -> Vec<(String, TensorSpec)> {
        let named = |layer: usize| {
            let tensors = config.tensors(layer).into_iter();
            tensors.map(move |spec| (format!("layers.{layer}.{}", spec.name), spec))
        };
        (0..config.n_layers()).flat_map(named).collect()
    }

    /// Host copies of all tensors, in the order of [`Weights::specs`].
    #[must_use]
    pub fn to_host(&self, backend: &B) -> Vec<Vec<f32>> {
        self.layers.iter().flatten().map(|tensor| backend.download(tensor)).collect()
    }

    pub(crate) fn layer(&self, layer: usize) -> &[B::Matrix] {
        &self.layers[layer]
    }
}

fn initial_values(spec: &TensorSpec, draws: Family) -> Vec<f32> {
    let (fan_in, fan_out) = match spec.start {
        Start::Glorot { fan_in, fan_out } => (fan_in, fan_out),
        Start::Zero => return vec![0.0; spec.n_rows * spec.n_cols],
        Start::One => return vec![1.0; spec.n_rows * spec.n_cols],
    };
    let limit = (6.0 / (fan_in + fan_out) as f64).sqrt() as f32;
    let mut values = Vec::with_capacity(spec.n_rows * spec.n_cols);
    for row in 0..spec.n_rows as u32 {
        for column in 0..spec.n_cols as u32 {
            let word = draws.block(row, column / 4)[column as usize % 4];
            values.push((2.0 * unit_f32(word) - 1.0) * limit);
        }
    }
    values
}

impl<B: Backend> Gradients<B> {
    /// Collects the layers' gradients, first layer first.
    #[must_use]
    pub fn new(layers: Vec<Vec<B::Matrix>>) -> Self {
        Self { layers }
    }

    /// All gradients in one host vector, in the order of [`Weights::specs`].
    #[must_use]
    pub fn flatten(&self, backend: &B) -> Vec<f32> {
        let mut values = Vec::new();
        self.layers.iter().for_each(|layer| Self::append_layer(backend, layer, &mut values));
        values
    }

    /// Appends the tensors of one layer to a host vector.
    pub fn append_layer(backend: &B, layer: &[B::Matrix], values: &mut Vec<f32>) {
        layer.iter().for_each(|tensor| values.extend(backend.download(tensor)));
    }

    /// Takes the tensors of one layer back from a vector that [`Gradients::append_layer`] laid out.
    ///
    /// # Panics
    /// If the vector has another length.
    pub fn assign_layer(backend: &B, layer: &mut [B::Matrix], mut values: &[f32]) {
        let n_values = |tensor: &B::Matrix| {
            let (n_rows, n_cols) = backend.shape(tensor);
            n_rows * n_cols
        };
        let n_expected: usize = layer.iter().map(n_values).sum();
        assert_eq!(values.len(), n_expected, "values of a layer's gradients");
        for tensor in layer {
            let (n_rows, n_cols) = backend.shape(tensor);
            let (own, rest) = values.split_at(n_rows * n_cols);
            *tensor = backend.upload(n_rows, n_cols, own);
            values = rest;
        }
    }
}

/// What Adam remembers between steps, on the host: a tensor an entry, in the order of
/// [`Weights::specs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Steps made.
    pub n_steps: u32,
    /// Running means of the gradients.
    pub first: Vec<Vec<f32>>,
    /// Running means of their squares.
    pub second: Vec<Vec<f32>>,
}

impl Moments {
    /// Whether they are as many and as large as those of a network of this form.
    #[must_use]
    pub fn fit(&self, config: &ModelConfig) -> bool {
        config.fits(&self.first) && config.fits(&self.second)
    }
}

impl ModelConfig {
    /// Whether host tensors are as many and as large as the network's, in the order of
    /// [`Weights::specs`].
    #[must_use]
    pub fn fits(&self, tensors: &[Vec<f32>]) -> bool {
        let specs = (0..self.n_layers()).flat_map(|layer| self.tensors(layer));
        specs.map(|spec| spec.n_rows * spec.n_cols).eq(tensors.iter().map(Vec::len))
    }
}

/// Adam as `torch.optim.Adam` does it, weight decay added to the gradient.
///
/// # Example
/// ```
/// use sylvie_gnn::{Adam, Gradients, ModelConfig, ModelKind, Moments, Weights};
/// use sylvie_tensor::{Backend, CpuBackend};
///
/// let (backend, config) = (CpuBackend::new(1), ModelConfig::new(ModelKind::Gcn, vec![2, 1]));
/// let mut weights = Weights::from_host(&backend, &config, &[vec![1.0, -1.0], vec![0.0]]);
/// let mut adam = Adam::new(&backend, &config, 0.1, 0.0);
/// let layer = vec![backend.upload(2, 1, &[3.0, -0.5]), backend.upload(1, 1, &[0.0])];
/// let gradients = Gradients::new(vec![layer]);
/// adam.step(&backend, &gradients, &mut weights);
/// // The first step is as long as the rate, whatever the gradient's size.
/// let stepped = weights.to_host(&backend);
/// assert!((stepped[0][0] - 0.9).abs() < 1e-5 && (stepped[0][1] + 0.9).abs() < 1e-5);
///
/// // Taken up from its moments, it goes on the same way.
/// let moments: Moments = adam.moments(&backend);
/// assert!(moments.n_steps == 1 && moments.fit(&config));
/// let mut resumed = Adam::resumed(&backend, &config, (0.1, 0.0), &moments);
/// let mut others = Weights::from_host(&backend, &config, &stepped);
/// adam.step(&backend, &gradients, &mut weights);
/// resumed.step(&backend, &gradients, &mut others);
/// assert_eq!(weights.to_host(&backend), others.to_host(&backend));
/// ```
pub struct Adam<B: Backend> {
    settings: AdamStep,
    first: Vec<Vec<B::Matrix>>,
    second: Vec<Vec<B::Matrix>>,
}

impl<B: Backend> Adam<B> {
    /// Moments of zero; betas 0.9 and 0.999, epsilon 1e-8.
    #[must_use]
    pub fn new(backend: &B, config: &ModelConfig, learning_rate: f32, weight_decay: f32) -> Self {
        let zeros = || {
            let layer = |l: usize| {
                let tensors = config.tensors(l).into_iter();
                tensors.map(|spec| backend.zeros(spec.n_rows, spec.n_cols)).collect()
            };
            (0..config.n_layers()).map(layer).collect()
        };
        let (beta1, beta2, epsilon, step) = (0.9, 0.999, 1e-8, 0);
        let settings = AdamStep { learning_rate, beta1, beta2, epsilon, weight_decay, step };
        Self { settings, first: zeros(), second: zeros() }
    }

    /// The optimiser as it was when `moments` were taken from it.
    ///
    /// # Panics
    /// If the moments are not those of a network of this form; see [`Moments::fit`].
    #[must_use]
    pub fn resumed(
        backend: &B,
        config: &ModelConfig,
        (learning_rate, weight_decay): (f32, f32),
        moments: &Moments,
    ) -> Self {
        let mut adam = Self::new(backend, config, learning_rate, weight_decay);
        adam.settings.step = moments.n_steps;
        adam.first = Weights::from_host(backend, config, &moments.first).layers;
        adam.second = Weights::from_host(backend, config, &moments.second).layers;
        adam
    }

    /// Host copies of what the optimiser remembers.
    #[must_use]
    pub fn moments(&self, backend: &B) -> Moments {
        let host = |layers: &[Vec<B::Matrix>]| {
            layers.iter().flatten().map(|tensor| backend.download(tensor)).collect()
        };
        Moments {
            n_steps: self.settings.step,
            first: host(&self.first),
            second: host(&self.second),
        }
    }

    /// One step on all weights.
    ///
    /// # Panics
    /// If gradients, weights and moments differ in shape.
    pub fn step(&mut self, backend: &B, gradients: &Gradients<B>, weights: &mut Weights<B>) {
        let n_tensors = |layers: &[Vec<B::Matrix>]| layers.iter().flatten().count();
        let n_moments = n_tensors(&self.first);
        assert_eq!(n_tensors(&gradients.layers), n_moments, "gradients and moments");
        assert_eq!(n_tensors(&weights.layers), n_moments, "weights and moments");
        self.settings.step += 1;
        let moments = self.first.iter_mut().flatten().zip(self.second.iter_mut().flatten());
        let tensors = gradients.layers.iter().flatten().zip(weights.layers.iter_mut().flatten());
        for ((first, second), (gradient, tensor)) in moments.zip(tensors) {
            backend.adam(&self.settings, gradient, (first, second), tensor);
        }
    }
}
