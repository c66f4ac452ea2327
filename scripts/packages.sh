# Packages that set-up installs, sourced by setup.sh.

build_packages=(
  g++ cmake ninja-build pkg-config
  libluajit-5.1-dev coinor-libcbc-dev coinor-libclp-dev coinor-libosi-dev coinor-libcgl-dev coinor-libcoinutils-dev
  zlib1g-dev libbz2-dev libeigen3-dev libfmt-dev nlohmann-json3-dev libcli11-dev libsqlite3-dev libmd-dev libedit-dev
)
# What runs models: Unicode and SentencePiece, for tokenizers. What runs them on GPUs: LibTorch.
tokenizer_packages=(libicu-dev libsentencepiece-dev)
# What runs plans and serves: sockets, MACs of who takes part, and text for Prometheus.
runtime_packages=(libboost1.81-dev libsodium-dev prometheus-cpp-dev)
models_packages=(libtorch-dev "${tokenizer_packages[@]}" "${runtime_packages[@]}")
# rsvg-convert, which makes the PDF and PNG files of plots and pictures.
pictures_packages=(librsvg2-bin fonts-dejavu-core)
test_packages=(
  curl  # a task asks a server as people do
  python3-yaml  # files of launches are read by a parser that is not ours; without it that test is skipped
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev lua-busted "${pictures_packages[@]}"
  chromium  # reports are looked at in a browser; without it those tests are skipped
  python3-venv python3-nbclient python3-nbformat python3-ipykernel  # the notebook runs; else they come from PyPI
)
lint_packages=(clang-format lua-check)
fuzz_packages=(clang libclang-rt-dev) # the second has libFuzzer; apt only recommends it
