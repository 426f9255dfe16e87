"""Opens what Sylvie wrote, and writes what Sylvie is to read, with numpy and scipy alone.

check_formats.py FOLDER: FOLDER/{arrays,ogb,graphsaint,reddit} are the same data set, written by
`sylvie convert`. Writes FOLDER/python/NAME and FOLDER/expected.json, which says what `sylvie info` must tell
of each.
"""

import gzip
import json
import pathlib
import sys

import numpy as np
import scipy.io
import scipy.sparse as sp

folder = pathlib.Path(sys.argv[1])


def load(path):
    """An array, without unpickling anything."""
    return np.load(path, allow_pickle=False)


def table(path, dtype):
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)


def read_arrays(at):
    indptr, indices = load(at / "indptr.npy"), load(at / "indices.npy")
    n = len(indptr) - 1
    adjacency = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(n, n))
    sets = [np.flatnonzero(load(at / f"{name}.npy")) for name in ["train", "val", "test"]]
    return adjacency, load(at / "feat.npy"), load(at / "label.npy"), sets


def read_graphsaint(at):
    adjacency = sp.load_npz(at / "adj_full.npz")
    class_map = json.loads((at / "class_map.json").read_text())
    labels = np.array([class_map[str(node)] for node in range(adjacency.shape[0])])
    role = json.loads((at / "role.json").read_text())
    sets = [np.array(role[name]) for name in ["tr", "va", "te"]]
    train = sp.load_npz(at / "adj_train.npz").tocoo()
    assert set(train.row) | set(train.col) <= set(sets[0])
    return adjacency, load(at / "feats.npy"), labels, sets


def read_reddit(at):
    adjacency = sp.load_npz(at / "reddit_graph.npz")
    data = np.load(at / "reddit_data.npz", allow_pickle=False)
    assert (data["node_ids"] == np.arange(adjacency.shape[0])).all()
    sets = [np.flatnonzero(data["node_types"] == number) for number in [1, 2, 3]]
    return adjacency, data["feature"], data["label"], sets


def read_ogb(at):
    (n,), (e,) = (table(at / "raw" / f"num-{kind}-list.csv.gz", int)[0] for kind in ["node", "edge"])
    edges = table(at / "raw/edge.csv.gz", int)
    assert edges.shape == (e, 2)
    half = sp.coo_matrix((np.ones(e), edges.T), shape=(n, n))
    (split,) = (at / "split").iterdir()
    sets = [table(split / f"{name}.csv.gz", int)[:, 0] for name in ["train", "valid", "test"]]
    labels = table(at / "raw/node-label.csv.gz", int)[:, 0]
    return half + half.T, table(at / "raw/node-feat.csv.gz", np.float32), labels, sets


def check_all_agree():
    first = None
    for reader in [read_arrays, read_graphsaint, read_reddit, read_ogb]:
        name = reader.__name__.removeprefix("read_")
        adjacency, features, labels, sets = reader(folder / name)
        found = adjacency.astype(bool).tocsr(), features, labels, sets
        if first is None:
            first = found
            assert found[0].nnz > 0 and features.dtype == np.float32, name
            continue
        assert (found[0] != first[0]).nnz == 0, name
        assert (features == first[1]).all() and (labels == first[2]).all(), name
        assert all((a == b).all() for a, b in zip(sets, first[3])), name
        print(f"{name}: the same graph, features, labels and split as arrays")


def write_for_sylvie():
    rng = np.random.default_rng(7)
    n, f, c = 50, 6, 4
    matrix = sp.random(n, n, 0.08, "csr", rng=rng)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    n_edges = (matrix + matrix.T).nnz
    features = rng.standard_normal((n, f))
    sparse = sp.random(n, f, 0.3, "csr", rng=rng)
    labels = rng.permutation(np.arange(n) % c)
    sets = np.array_split(rng.permutation(n), 3)
    expected = {}

    def place(name):
        at = folder / "python" / name
        at.mkdir(parents=True)
        expected[f"python/{name}"] = [n, n_edges, f, c]
        return at

    at = place("arrays")
    np.save(at / "indptr.npy", matrix.indptr)
    np.save(at / "indices.npy", matrix.indices)
    np.save(at / "feat.npy", np.asfortranarray(features.astype(">f8")))
    np.save(at / "label.npy", labels.astype(np.int16))
    for name, ids in zip(["train", "val", "test"], sets):
        np.save(at / f"{name}.npy", np.isin(np.arange(n), ids))

    at = place("matrix-market")
    scipy.io.mmwrite(at / "edges.mtx", matrix)
    scipy.io.mmwrite(at / "feat.mtx", sparse)
    np.savetxt(at / "labels.csv", labels, fmt="%d", header="class")
    for name, ids in zip(["train", "val", "test"], sets):
        np.save(at / f"{name}.npy", ids)

    at = place("edge-list")
    edges = np.stack(matrix.nonzero(), 1)
    np.savetxt(at / "edges.tsv.gz", edges, fmt="%d", delimiter="\t", header="source\ttarget", comments="")
    np.save(at / "feat.npy", features.astype(np.float16))
    np.savetxt(at / "labels.csv", labels, fmt="%d")
    for name, ids in zip(["train", "val", "test"], sets):
        np.savetxt(at / f"{name}.csv", ids, fmt="%d")

    at = place("reddit")
    sp.save_npz(at / "reddit_graph.npz", matrix.tocoo())
    types = np.select([np.isin(np.arange(n), ids) for ids in sets], [1, 2, 3])
    np.savez_compressed(at / "reddit_data.npz", feature=features, label=labels, node_types=types,
                        node_ids=np.arange(n))

    at = place("ogb/raw").parent
    del expected["python/ogb/raw"]
    expected["python/ogb"] = [n, n_edges, f, c]
    np.savez_compressed(at / "raw/data.npz", edge_index=edges.T, node_feat=features, num_nodes_list=[n],
                        num_edges_list=[len(edges)])
    np.savez_compressed(at / "raw/node-label.npz", node_label=labels.reshape(-1, 1).astype(float))
    (at / "split/only").mkdir(parents=True)
    for name, ids in zip(["train", "valid", "test"], sets):
        np.savetxt(at / f"split/only/{name}.csv.gz", ids, fmt="%d")

    (folder / "expected.json").write_text(json.dumps(expected))


check_all_agree()
write_for_sylvie()
