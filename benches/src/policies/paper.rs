//! What the paper reports: throughput relative to the synchronous system in full precision.

use sylvie::gnn::ModelKind;

/// The range over Reddit and ogbn-products, two servers of four devices (the paper's main table); `None`
/// for what it does not report.
pub(crate) fn throughput(policy: &str, kind: ModelKind) -> Option<(f64, f64)> {
    let [sage, gcn] = match policy {
        "vanilla" => [(1.0, 1.0); 2],
        "sar" => [(0.42, 0.64), (0.42, 0.65)],
        "pipegcn" => [(1.15, 1.19); 2],
        "bns-gcn" => [(8.4, 9.0), (8.6, 9.2)],
        "sylvie-s" => [(17.5, 19.9), (18.4, 20.0)],
        "sylvie-a" => [(25.7, 27.6), (26.6, 28.1)],
        _ => return None,
    };
    match kind {
        ModelKind::Sage => Some(sage),
        ModelKind::Gcn => Some(gcn),
        ModelKind::Gat => None,
    }
}
