#!/usr/bin/env bash
# Generate serve/stubs/ from open_inference.proto. Needs grpcio-tools: the stubs run with the
# protobuf of the version that it brings, and with later ones.
set -euo pipefail
cd "$(dirname "$0")/../serve/stubs"
"${PYTHON:-python}" -m grpc_tools.protoc -I. --python_out=. --pyi_out=. open_inference.proto
