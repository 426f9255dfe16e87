"""Times epochs of Sylvie and of DGL or PyG in turns, on one graph in arrays, and prints the ratio of medians."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
N_WARM = 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", type=Path, required=True, help="a folder of npy files (sylvie convert --to arrays)")
    parser.add_argument("--peer", choices=["dgl", "pyg"], default="dgl")
    parser.add_argument("--model", choices=["gcn", "sage", "gat"], default="gcn")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6, help=f"of each turn; the first {N_WARM} do not count")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights, which differ between the two all the same")
    parser.add_argument("--sylvie", type=Path, default=HERE.parent.parent / "target/release/sylvie")
    options = parser.parse_args()
    if options.epochs <= N_WARM:
        parser.error(f"--epochs {options.epochs}: the first {N_WARM} do not count, so that there must be more")
    return options


def network(options):
    return [f"--{name}={getattr(options, name)}" for name in ("model", "hidden", "layers", "epochs")]


def peer(options):
    command = [sys.executable, HERE / "peer_epochs.py", *network(options)]
    command += [f"--{name}={getattr(options, name)}" for name in ("peer", "graph", "threads", "seed")]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(output.splitlines()[-1])
    return statistics.median(found["seconds"][N_WARM:]), found["peak_gb"], found["loss"], found["accuracy"]


def sylvie(options):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [options.sylvie, "train", "--data", options.graph, "--format=arrays", *network(options)]
        command += ["--parts=1", f"--threads={options.threads}", f"--seed={options.seed}", "--norm=none", "--dropout=0"]
        command += [f"--eval-every={options.epochs}", f"--out={out}", "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((out / "summary.json").read_text())
    seconds = statistics.median(epoch["epoch_ms"] for epoch in epochs[N_WARM:]) / 1e3
    return seconds, summary["peak_rss_mb"] / 1e3, epochs[-1]["loss"], summary["final_test"]


def main():
    options = arguments()
    print(f"{options.model}, {options.layers} layers, {options.hidden} columns, {options.threads} threads, {options.graph}")
    ratios = []
    for _ in range(options.turns):
        theirs, ours = peer(options), sylvie(options)
        ratios.append(ours[0] / theirs[0])
        for name, found in ((options.peer, theirs), ("sylvie", ours)):
            print("%-7s %7.3f s an epoch, peak %.2f GB, loss %.4f, test accuracy %.4f" % (name, *found), flush=True)
    print(f"sylvie over {options.peer}: {statistics.median(ratios):.3f} (turns: {', '.join('%.3f' % r for r in ratios)})")


if __name__ == "__main__":
    main()
