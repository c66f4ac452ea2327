// Which version of each kernel a call uses.
#include "versions.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "reference/reference.h"
#include "tessera/kernels/info.h"

namespace tessera::kernels {

const char* describe(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::invalid_argument:
      return "invalid argument";
    case Status::unsupported:
      return "unsupported";
    case Status::device_error:
      return "device error";
  }
  return "unknown status";
}

namespace cpu {

const Versions kScalar = {"scalar",
                          reference::moments,
                          reference::range,
                          reference::quantise,
                          reference::dequantise,
                          reference::dequant_gemm,
                          reference::quantise_row,
                          reference::int8_gemm};

const Versions& chosen() { return kScalar; }

}  // namespace cpu

bool use_isa(const char* isa) { return isa == nullptr || std::strcmp(isa, "scalar") == 0; }

}  // namespace tessera::kernels
