//! The figures of a run at its end, or of the epochs that it has.

use serde::Deserialize;
use toml::Table;

use super::run::{Epoch, mean};
use crate::summary::median;

/// What a report shows of summary.json; what a run does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Figures {
    pub(super) metric: Option<String>,
    pub(super) best_val: Option<f64>,
    pub(super) test_at_best_val: Option<f64>,
    pub(super) final_test: Option<f64>,
    pub(super) best_epoch: Option<u32>,
    pub(super) epochs: Option<u32>,
    pub(super) loss: Option<f64>,
    pub(super) median_epoch_ms: Option<f64>,
    pub(super) mean_epoch_ms: Option<f64>,
    pub(super) hidden_share: Option<f64>,
    pub(super) payload_bytes_per_epoch: Option<u64>,
    pub(super) metadata_bytes_per_epoch: Option<u64>,
    pub(super) fp32_bytes_per_epoch: Option<u64>,
    pub(super) reduce_bytes_per_epoch: Option<u64>,
    pub(super) eval_bytes: Option<u64>,
    pub(super) setup_bytes: Option<u64>,
    pub(super) peak_rss_mb: Option<f64>,
    pub(super) parts: Option<u32>,
    pub(super) cut_edges: Option<u64>,
    pub(super) halo_rows: Option<u64>,
}

impl Figures {
    /// What the epochs of a run that is not over tell.
    pub(super) fn so_far(epochs: &[Epoch], settings: &Table) -> Self {
        let best = epochs.iter().filter(|epoch| epoch.val.is_some());
        // The first of those that are equal, as in training.
        let best = best.reduce(|best, epoch| if epoch.val > best.val { epoch } else { best });
        let last = epochs.iter().rfind(|epoch| epoch.is_evaluated);
        let mean_bytes = |figure: fn(&Epoch) -> Option<u64>| {
            let bytes = epochs.iter().filter_map(figure).map(|bytes| bytes as f64);
            mean(bytes).map(|bytes| bytes.round() as u64)
        };
        let epoch_ms: Vec<f64> = epochs.iter().filter_map(|epoch| epoch.epoch_ms).collect();
        Self {
            metric: settings.get("metric").and_then(|word| word.as_str()).map(str::to_owned),
            best_val: best.and_then(|epoch| epoch.val),
            test_at_best_val: best.and_then(|epoch| epoch.test),
            final_test: last.and_then(|epoch| epoch.test),
            best_epoch: best.map(|epoch| epoch.epoch),
            epochs: Some(epochs.len() as u32),
            loss: epochs.last().and_then(|epoch| epoch.loss),
            median_epoch_ms: median(&epoch_ms),
            mean_epoch_ms: mean(epoch_ms.iter().copied()),
            payload_bytes_per_epoch: mean_bytes(|epoch| epoch.payload_bytes),
            metadata_bytes_per_epoch: mean_bytes(|epoch| epoch.metadata_bytes),
            reduce_bytes_per_epoch: mean_bytes(|epoch| epoch.reduce_bytes),
            parts: settings.get("parts").and_then(toml::Value::as_integer).map(|n| n as u32),
            ..Self::default()
        }
    }

    /// Bytes of halo rows that an epoch sends, metadata included.
    pub(super) fn sent_bytes(&self) -> Option<u64> {
        self.payload_bytes_per_epoch.zip(self.metadata_bytes_per_epoch).map(|(p, m)| p + m)
    }

    /// By how much fp32 sends more.
    pub(super) fn saving(&self) -> Option<f64> {
        let (sent, fp32) = self.sent_bytes().zip(self.fp32_bytes_per_epoch)?;
        (sent > 0 && fp32 > 0).then(|| fp32 as f64 / sent as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_not_over_tells_what_it_has_reached() {
        let epoch = |text: &str| -> Epoch { serde_json::from_str(text).unwrap() };
        let mut epochs = vec![
            epoch(r#"{"epoch":0,"loss":3.0,"epoch_ms":9.0,"payload_bytes":10,"metadata_bytes":2}"#),
            epoch(r#"{"epoch":1,"loss":2.0,"epoch_ms":2.0,"val":0.5,"test":0.25}"#),
            epoch(r#"{"epoch":2,"loss":1.0,"epoch_ms":4.0,"val":0.5,"test":0.75}"#),
            epoch(r#"{"epoch":3,"loss":null,"val":null,"test":0.125}"#),
        ];
        epochs[3].is_evaluated = true;
        let settings = "metric = \"accuracy\"\nparts = 4".parse().unwrap();
        let figures = Figures::so_far(&epochs, &settings);
        assert_eq!((figures.best_epoch, figures.test_at_best_val), (Some(1), Some(0.25)));
        assert_eq!((figures.final_test, figures.loss), (Some(0.125), None));
        assert_eq!((figures.median_epoch_ms, figures.mean_epoch_ms), (Some(4.0), Some(5.0)));
        assert_eq!((figures.sent_bytes(), figures.saving()), (Some(12), None));
        assert_eq!((figures.parts, figures.metric.as_deref()), (Some(4), Some("accuracy")));
        assert_eq!(Figures::so_far(&[], &settings).median_epoch_ms, None);
    }

    #[test]
    fn nothing_is_saved_where_nothing_is_sent() {
        let figures = |sent, fp32| Figures {
            payload_bytes_per_epoch: Some(sent),
            metadata_bytes_per_epoch: Some(0),
            fp32_bytes_per_epoch: Some(fp32),
            ..Figures::default()
        };
        assert_eq!(figures(10, 320).saving(), Some(32.0));
        assert_eq!((figures(0, 320).saving(), figures(0, 0).saving()), (None, None));
    }
}
