#include "rows.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

// The machines of Helix's testbed (Google Cloud): V100 with 16 GB, A100 with 40 GB.
const std::vector<ShortName>& testbed() {
  static const std::vector<ShortName> names = {
      {"a100", "A100-40G"}, {"v100", "V100-16G"}, {"t4", "T4-16G"}, {"l4", "L4"}};
  return names;
}

Phase phase_of(const Rows& rows) {
  const std::string path = lower(rows.csv.path());
  const std::string file = path.substr(path.rfind('/') + 1);
  if (file.find("prompt") != std::string::npos) return Phase::prefill;
  if (file.find("decode") != std::string::npos) return Phase::decode;
  refuse(rows.csv.path(), "a Helix table says its phase in its name: prompt_... or decode_...");
}

std::string device_of(const Rows& rows) {
  if (!rows.options.device.empty()) return rows.options.device;
  const auto found = device_in_path(rows.csv.path(), testbed());
  if (!found) {
    refuse(rows.csv.path(),
           "no folder of the path is a device of Helix (a100, v100, t4, l4, t4x2, ...); give "
           "device = \"...\"");
  }
  return (found->count > 1 ? std::to_string(found->count) + "x" : "") + found->device;
}

// Its folders call LLaMA-1 30B "llama1_30b".
std::string model_of(const Rows& rows) {
  if (!rows.options.model.empty()) return rows.options.model;
  const std::string path = lower(rows.csv.path());
  for (const auto& [word, model] :
       {std::pair{"llama1_30b", "llama-30b"}, std::pair{"llama2_70b", "llama-2-70b"}}) {
    if (path.find(word) != std::string::npos) return model;
  }
  refuse(rows.csv.path(),
         "no folder of the path is a model of Helix (llama1_30b, llama2_70b); give model = "
         "\"...\"");
}

}  // namespace

void read_helix(Rows& rows) {
  OpQuery query;
  query.op = Op::layer;
  query.phase = phase_of(rows);
  query.model = model_of(rows);
  const std::string device = device_of(rows);
  const std::string kernel_set = rows.kernel_set("vllm");
  while (rows.next()) {
    if (rows.csv.fields().size() != 2) {
      rows.csv.refuse("a Helix table has two columns, tokens or requests and milliseconds");
    }
    const double size = rows.size(0);
    query.batch_size = query.phase == Phase::decode ? size : 1;
    query.tokens = query.phase == Phase::decode ? 1 : size;
    rows.add(query, rows.latency_s(1, 1e-3), device, kernel_set, "Helix");
  }
}

}  // namespace tessera::cost::readers
