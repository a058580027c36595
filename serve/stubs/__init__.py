"""Messages generated from open_inference.proto by protoc; scripts/generate_stubs.sh makes them."""
