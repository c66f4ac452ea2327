#include "models.h"

namespace tessera::cost::models {

std::vector<const FitMethod*> gemm_methods() { return {&gemm_operator(), &table()}; }
std::vector<const FitMethod*> attention_methods() { return {&attention_operator(), &table()}; }
std::vector<const FitMethod*> expert_methods() { return {&experts()}; }
std::vector<const FitMethod*> layer_methods() {
  return {&layer_regression(), &layer_operator(), &table()};
}
std::vector<const FitMethod*> byte_methods() { return {&bandwidth(), &table()}; }
std::vector<const FitMethod*> all_reduce_methods() {
  return {&all_reduce(), &nccl(), &bandwidth(), &table()};
}
std::vector<const FitMethod*> transfer_methods() { return {&nccl(), &bandwidth(), &table()}; }

}  // namespace tessera::cost::models
