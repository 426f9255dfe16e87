"""Trains a network of DGL or PyG on a graph in arrays, and prints seconds, loss and memory as one line of JSON."""
import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

N_HEADS = 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=["dgl", "pyg"], required=True)
    parser.add_argument("--model", choices=["gcn", "sage", "gat"], required=True)
    parser.add_argument("--graph", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def dgl_layers(model, widths, indptr, indices):
    import dgl
    import dgl.nn

    edges = (torch.from_numpy(indptr), torch.from_numpy(indices), torch.empty(0, dtype=torch.int64))
    graph = dgl.graph(("csc", edges), num_nodes=len(indptr) - 1)
    if model != "sage":
        graph = dgl.add_self_loop(graph)
    graph = graph.int()
    graph.create_formats_()
    n_layers = len(widths) - 1
    layers = nn.ModuleList()
    for number, (n_in, n_out) in enumerate(zip(widths, widths[1:])):
        is_last = number + 1 == n_layers
        if model == "gcn":
            layers.append(dgl.nn.GraphConv(n_in, n_out))
        elif model == "sage":
            layers.append(dgl.nn.SAGEConv(n_in, n_out, "mean"))
        else:
            layers.append(dgl.nn.GATConv(n_in, n_out if is_last else n_out // N_HEADS, N_HEADS))

    def apply(number, rows):
        rows = layers[number](graph, rows)
        if model != "gat":
            return rows
        return rows.mean(1) if number + 1 == n_layers else rows.flatten(1)

    return layers, apply


def pyg_layers(model, widths, indptr, indices):
    import torch_geometric.nn as pyg

    n_nodes, n_layers = len(indptr) - 1, len(widths) - 1
    indptr, indices = torch.from_numpy(indptr), torch.from_numpy(indices)
    if model == "gat":
        readers = torch.repeat_interleave(torch.arange(n_nodes), indptr.diff())
        edges = torch.stack([indices, readers])
    else:
        edges = torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), (n_nodes, n_nodes))
    layers = nn.ModuleList()
    for number, (n_in, n_out) in enumerate(zip(widths, widths[1:])):
        is_last = number + 1 == n_layers
        if model == "gcn":
            layers.append(pyg.GCNConv(n_in, n_out, cached=True))
        elif model == "sage":
            layers.append(pyg.SAGEConv(n_in, n_out, "mean"))
        else:
            width = n_out if is_last else n_out // N_HEADS
            layers.append(pyg.GATConv(n_in, width, N_HEADS, concat=not is_last))
    return layers, lambda number, rows: layers[number](rows, edges)


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    read = lambda name: np.load(options.graph / f"{name}.npy")
    indptr, indices = read("indptr").astype(np.int64), read("indices").astype(np.int64)
    features, labels = torch.from_numpy(read("feat")), torch.from_numpy(read("label")).long()
    train, test = torch.from_numpy(read("train")), torch.from_numpy(read("test"))
    n_classes = int(labels.max()) + 1
    widths = [features.shape[1]] + [options.hidden] * (options.layers - 1) + [n_classes]
    make = dgl_layers if options.peer == "dgl" else pyg_layers
    layers, apply = make(options.model, widths, indptr, indices)
    optimiser = torch.optim.Adam(layers.parameters(), lr=0.01)

    def forward():
        rows = features
        for number in range(len(layers)):
            rows = apply(number, rows)
            if number + 1 < len(layers):
                rows = functional.relu(rows)
        return rows

    seconds = []
    for _ in range(options.epochs):
        start = time.perf_counter()
        loss = functional.cross_entropy(forward()[train], labels[train])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds.append(time.perf_counter() - start)
    with torch.no_grad():
        accuracy = (forward()[test].argmax(1) == labels[test]).float().mean().item()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "loss": loss.item(), "accuracy": accuracy, "peak_gb": peak}))


if __name__ == "__main__":
    main()
