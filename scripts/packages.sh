# Packages that set-up installs, sourced by setup.sh. Names are the same on Debian 12 and Ubuntu 24.04.

build_packages=(
  g++ cmake ninja-build pkg-config
  libluajit-5.1-dev coinor-libcbc-dev coinor-libclp-dev coinor-libosi-dev coinor-libcgl-dev coinor-libcoinutils-dev
  zlib1g-dev libbz2-dev libeigen3-dev libfmt-dev nlohmann-json3-dev libcli11-dev libsqlite3-dev libmd-dev libedit-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev lua-busted)
lint_packages=(clang-format lua-check)
fuzz_packages=(clang libclang-rt-dev) # the second has libFuzzer; apt only recommends it
