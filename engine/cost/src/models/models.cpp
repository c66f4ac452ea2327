#include "models.h"

namespace tessera::cost::models {

std::vector<const FitMethod*> gemm_methods() { return {&gemm_operator()}; }
std::vector<const FitMethod*> attention_methods() { return {}; }
std::vector<const FitMethod*> layer_methods() { return {}; }
std::vector<const FitMethod*> byte_methods() { return {&bandwidth()}; }

}  // namespace tessera::cost::models
