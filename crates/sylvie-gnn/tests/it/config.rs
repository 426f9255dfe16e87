//! What networks can be built, and the words for their settings.

use sylvie_gnn::{ConfigError, Metric, ModelConfig, ModelKind, Network, NormKind, ParseModelError};

use crate::{KINDS, config};

fn refusal(change: impl Fn(&mut ModelConfig)) -> ConfigError {
    let mut config = config(ModelKind::Gat, &[7, 8, 8, 3], 1, NormKind::Layer);
    assert_eq!(config.check(), Ok(()));
    change(&mut config);
    let error = config.check().expect_err("a network that cannot be built");
    let message = error.to_string();
    assert!(!message.ends_with('.') && message.starts_with(|c: char| !c.is_uppercase()));
    // Compared as text, since a rate may be no number.
    let from_new = Network::new(config).map(|_| ());
    assert_eq!(format!("{from_new:?}"), format!("Err({error:?})"));
    error
}

#[test]
fn every_refusal() {
    let too_many = 256;
    assert_eq!(
        refusal(|config| config.widths = vec![4; too_many + 1]),
        ConfigError::LayerCount { n_layers: too_many }
    );
    for widths in [vec![], vec![4]] {
        let error = refusal(|config| config.widths = widths.clone());
        assert_eq!(error, ConfigError::LayerCount { n_layers: 0 });
    }
    for n_linear in [3, 4, usize::MAX] {
        let error = refusal(|config| config.n_linear = n_linear);
        assert_eq!(error, ConfigError::NoGraphLayer { n_layers: 3, n_linear });
    }
    for (place, what) in
        [(0, "input features"), (1, "hidden columns"), (2, "hidden columns"), (3, "classes")]
    {
        let error = refusal(|config| config.widths[place] = 0);
        assert_eq!(error, ConfigError::ZeroWidth { what });
    }
    assert_eq!(refusal(|config| config.n_heads = 0), ConfigError::ZeroWidth { what: "heads" });
    assert_eq!(
        refusal(|config| config.n_heads = 3),
        ConfigError::Heads { n_heads: 3, n_hidden: 8 }
    );
    for rate in [1.0, -0.1, f32::INFINITY] {
        assert_eq!(refusal(|config| config.dropout = rate), ConfigError::DropoutRate { rate });
    }
    let error = refusal(|config| config.dropout = f32::NAN);
    assert!(matches!(error, ConfigError::DropoutRate { rate } if rate.is_nan()));
}

#[test]
fn weights_beyond_all_memory_are_refused() {
    for wide in [1 << 29, usize::MAX] {
        let error = refusal(|config| config.widths[0] = wide);
        assert_eq!(error, ConfigError::TooManyWeights { layer: 0, n_in: wide, n_out: 8 });
    }
    // The last layer of GAT has all columns for each head.
    let error = refusal(|config| {
        config.widths = vec![7, 3];
        config.n_linear = 0;
        config.n_heads = usize::MAX;
    });
    assert_eq!(error, ConfigError::TooManyWeights { layer: 0, n_in: 7, n_out: usize::MAX });
}

#[test]
fn heads_matter_where_they_are_concatenated() {
    let mut config = config(ModelKind::Gat, &[7, 8, 3], 0, NormKind::None);
    config.n_heads = 4;
    // Classes need no multiple of the heads.
    assert_eq!(config.check(), Ok(()));
    config.kind = ModelKind::Sage;
    config.n_heads = 3;
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn shapes_of_tensors() {
    let shapes = |kind, layer| -> Vec<(&str, usize, usize)> {
        let config = config(kind, &[7, 8, 6, 3], 1, NormKind::Layer);
        config.tensors(layer).iter().map(|s| (s.name, s.n_rows, s.n_cols)).collect()
    };
    let norm = |width| [("b", 1, width), ("ln_w", 1, width), ("ln_b", 1, width)];
    let with = |own: &[(&'static str, usize, usize)], width| [own, &norm(width)[..]].concat();
    assert_eq!(shapes(ModelKind::Gcn, 0), with(&[("w", 7, 8)], 8));
    assert_eq!(shapes(ModelKind::Sage, 1), with(&[("w_self", 8, 6), ("w_neigh", 8, 6)], 6));
    assert_eq!(
        shapes(ModelKind::Gat, 1),
        with(&[("w", 8, 6), ("a_src", 2, 3), ("a_dst", 2, 3)], 6)
    );
    for kind in KINDS {
        assert_eq!(shapes(kind, 2), [("w", 6, 3), ("b", 1, 3)], "{kind}: a linear layer");
    }
    let last = config(ModelKind::Gat, &[7, 3], 0, NormKind::Layer);
    let last: Vec<_> = last.tensors(0).iter().map(|s| (s.name, s.n_rows, s.n_cols)).collect();
    assert_eq!(last, [("w", 7, 6), ("a_src", 2, 3), ("a_dst", 2, 3), ("b", 1, 3)]);
}

#[test]
fn words() {
    for kind in KINDS {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for norm in [NormKind::Layer, NormKind::None] {
        assert_eq!(norm.to_string().parse(), Ok(norm));
    }
    for metric in [Metric::Accuracy, Metric::MicroF1, Metric::RocAuc] {
        assert_eq!(metric.to_string().parse(), Ok(metric));
    }
    for word in ["", "GCN", "gcn ", "layers", "f1", "gin"] {
        let errors: [ParseModelError; 3] = [
            word.parse::<ModelKind>().expect_err(word),
            word.parse::<NormKind>().expect_err(word),
            word.parse::<Metric>().expect_err(word),
        ];
        for error in errors {
            let message = error.to_string();
            assert!(message.contains(&format!("'{word}'")), "{message}");
            // Every word that the message offers is taken.
            for offered in error.expected.split(", ") {
                let is_taken = match error.what {
                    "model" => offered.parse::<ModelKind>().is_ok(),
                    "norm" => offered.parse::<NormKind>().is_ok(),
                    _ => offered.parse::<Metric>().is_ok(),
                };
                assert!(is_taken, "{} {offered}", error.what);
            }
        }
    }
}
