// Trains the model of this folder again: a decoder of OPT's architecture (Zhang et al. 2022), by
// LibTorch on the CPU.
//   tessera texts.lua
//   g++ -std=c++17 -O2 -I/usr/include/torch/csrc/api/include train.cpp -o train
//     -ltorch -ltorch_cpu -lc10
//   ./train model.safetensors
// config.json and the tokenizer are as they stand here. The weights here are by an earlier program,
// which drew first values and windows in another order and multiplied in bf16: expect a model as
// good (1.296 nats a held-out token), not the same bytes.
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

namespace {

using torch::Tensor;

constexpr int64_t kLayers = 12, kHidden = 192, kHeads = 6, kFfn = 768, kVocab = 512;
constexpr int64_t kContext = 256, kBatch = 4;
constexpr int64_t kOffset = 2;  // rows of the positions that Hugging Face's OPT leaves unused

/// Parameters by the names of transformers' OPTForCausalLM behind "model.decoder.".
using Parameters = std::map<std::string, Tensor>;

std::string layer_name(int64_t layer) { return "layers." + std::to_string(layer) + "."; }

Parameters first_values() {
  Parameters p;
  const auto norm = [&](const std::string& name) {
    p[name + ".weight"] = torch::ones({kHidden});
    p[name + ".bias"] = torch::zeros({kHidden});
  };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, double scale) {
    p[name + ".weight"] = torch::randn({out, in}) * (scale / std::sqrt(double(in)));
    p[name + ".bias"] = torch::zeros({out});
  };
  p["embed_tokens.weight"] = torch::randn({kVocab, kHidden}) * 0.05;
  p["embed_positions.weight"] = torch::randn({kContext + kOffset, kHidden}) * 0.02;
  norm("final_layer_norm");
  const double into_residual = 0.8 / std::sqrt(2.0 * kLayers);
  for (int64_t l = 0; l < kLayers; ++l) {
    norm(layer_name(l) + "self_attn_layer_norm");
    norm(layer_name(l) + "final_layer_norm");
    for (const char* part : {"q_proj", "k_proj", "v_proj"})
      linear(layer_name(l) + "self_attn." + part, kHidden, kHidden, 0.8);
    linear(layer_name(l) + "self_attn.out_proj", kHidden, kHidden, into_residual);
    linear(layer_name(l) + "fc1", kFfn, kHidden, 0.8);
    linear(layer_name(l) + "fc2", kHidden, kFfn, into_residual);
  }
  for (auto& [name, tensor] : p) tensor.requires_grad_();
  return p;
}

/// Nats a token that is predicted. @param windows [batch][context + 1]
Tensor loss_of(const Parameters& p, const Tensor& windows) {
  const int64_t length = windows.size(1) - 1;
  const auto norm = [&](const std::string& name, const Tensor& x) {
    return torch::layer_norm(x, {kHidden}, p.at(name + ".weight"), p.at(name + ".bias"));
  };
  const auto linear = [&](const std::string& name, const Tensor& x) {
    return torch::linear(x, p.at(name + ".weight"), p.at(name + ".bias"));
  };
  const Tensor mask = torch::full({length, length}, -INFINITY).triu(1);
  Tensor x = torch::embedding(p.at("embed_tokens.weight"), windows.narrow(1, 0, length)) +
             p.at("embed_positions.weight").narrow(0, kOffset, length);
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string name = layer_name(l);
    const Tensor seen = norm(name + "self_attn_layer_norm", x);
    const auto heads = [&](const char* part) {
      return linear(name + "self_attn." + part, seen)
          .view({x.size(0), length, kHeads, kHidden / kHeads})
          .transpose(1, 2);
    };
    const Tensor scores = heads("q_proj").matmul(heads("k_proj").transpose(2, 3)) /
                          std::sqrt(double(kHidden) / kHeads);
    const Tensor mixed = (scores + mask).softmax(-1).matmul(heads("v_proj"));
    x = x + linear(name + "self_attn.out_proj", mixed.transpose(1, 2).reshape(x.sizes()));
    x = x +
        linear(name + "fc2", torch::relu(linear(name + "fc1", norm(name + "final_layer_norm", x))));
  }
  const Tensor logits = norm("final_layer_norm", x).matmul(p.at("embed_tokens.weight").t());
  return torch::cross_entropy_loss(logits.view({-1, kVocab}),
                                   windows.narrow(1, 1, length).reshape({-1}));
}

/// All ids of a file of texts.lua.
Tensor read_ids(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "there is no ", path, ": tessera texts.lua writes it");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto count = static_cast<int64_t>(bytes.size() / 2);
  return torch::from_blob(const_cast<char*>(bytes.data()), {count}, torch::kShort).to(torch::kLong);
}

/// One stage: AdamW (Loshchilov and Hutter 2019) with moments of its own, the rate up linearly,
/// then at its peak, down by half a cosine in the last `decay_steps` to 2 % of it.
struct Stage {
  uint64_t seed;
  int64_t num_steps;
  double peak;
  int64_t warmup_steps, decay_steps;
};

double rate_at(const Stage& stage, int64_t step) {
  if (step < stage.warmup_steps) return stage.peak * double(step + 1) / double(stage.warmup_steps);
  const double part =
      double(step - (stage.num_steps - stage.decay_steps)) / double(stage.decay_steps);
  return stage.peak * (0.02 + 0.98 * 0.5 * (1 + std::cos(M_PI * std::max(0.0, part))));
}

void train(Parameters& p, const Tensor& ids, const Stage& stage) {
  std::vector<Tensor> all, matrices, others;
  for (auto& [name, tensor] : p) {
    const bool is_matrix = tensor.dim() == 2 && name.rfind("embed", 0) != 0;
    (is_matrix ? matrices : others).push_back(tensor);
    all.push_back(tensor);
  }
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions().betas({0.9, 0.98}).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups{{matrices, options(0.05)},
                                                        {others, options(0)}};
  torch::optim::AdamW optimiser(groups);
  std::mt19937_64 random(stage.seed);
  std::vector<int64_t> starts;  // each window once before any comes twice
  for (int64_t step = 0; step < stage.num_steps; ++step) {
    std::vector<Tensor> windows;
    while (static_cast<int64_t>(windows.size()) < kBatch) {
      if (starts.empty()) {
        const auto first = static_cast<int64_t>(random() % kContext);
        for (int64_t at = first; at + kContext < ids.size(0); at += kContext) starts.push_back(at);
        std::shuffle(starts.begin(), starts.end(), random);
      }
      windows.push_back(ids.narrow(0, starts.back(), kContext + 1));
      starts.pop_back();
    }
    for (auto& group : optimiser.param_groups()) group.options().set_lr(rate_at(stage, step));
    optimiser.zero_grad();
    const Tensor loss = loss_of(p, torch::stack(windows));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(all, 1);
    optimiser.step();
    if (step % 25 == 0)
      std::cout << "step " << step << "  loss " << loss.item<double>() << std::endl;
  }
}

/// Outliers, as OPT has them from 6.7 billion parameters on (Dettmers et al. 2022, LLM.int8(), Sec.
/// 4): two channels behind every LayerNorm grow 16 times and are shifted by up to 128, and the
/// matrices that read them give both back, so that the function stays what it is.
void make_outliers(Parameters& p) {
  const torch::NoGradGuard no_gradients;
  const auto move = [&](const std::string& norm, const std::vector<std::string>& readers,
                        double shift) {
    for (const int64_t channel : {128, 81}) {
      const double by = channel == 128 ? shift : -shift;
      for (const char* part : {".weight", ".bias"}) p[norm + part][channel] *= 16;
      p[norm + ".bias"][channel] += by;
      for (const std::string& reader : readers) {
        Tensor column = p[reader + ".weight"].select(1, channel);
        column.copy_((column / 16).to(torch::kHalf));  // the shift meets what is written
        p[reader + ".bias"] -= column * by;
      }
    }
  };
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string name = layer_name(l), attention = name + "self_attn.";
    const double shift = 128.0 * double(l + 1) / kLayers;
    move(name + "self_attn_layer_norm",
         {attention + "q_proj", attention + "k_proj", attention + "v_proj"}, shift);
    move(name + "final_layer_norm", {name + "fc1"}, shift);
  }
}

/// As safetensors, in f16: the length of the header, the header, the tensors.
void write(const Parameters& p, const std::string& path) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const auto& [name, tensor] : p) {
    const Tensor half = tensor.detach().to(torch::kHalf).contiguous();
    std::string shape;
    for (const int64_t size : half.sizes())
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += ",\"model.decoder." + name + "\":{\"dtype\":\"F16\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data.append(static_cast<const char*>(half.data_ptr()), half.nbytes());
    header += std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << data;
  TORCH_CHECK(file.flush(), "cannot write ", path);
}

}  // namespace

/// train FILE [STEPS]: STEPS of every stage alone, to try it.
int main(int argc, char** argv) {
  TORCH_CHECK(argc == 2 || argc == 3, "usage: train FILE [STEPS]");
  torch::manual_seed(1);
  Parameters p = first_values();
  const Tensor ids = read_ids("train.ids"), held_out = read_ids("held_out.ids");
  for (Stage stage : {Stage{1, 3320, 2e-3, 150, 600}, Stage{2, 1600, 1e-3, 50, 1550},
                      Stage{3, 2000, 1e-3, 50, 1950}}) {
    if (argc == 3) stage.num_steps = std::min<int64_t>(stage.num_steps, std::stoll(argv[2]));
    train(p, ids, stage);
  }
  make_outliers(p);
  write(p, argv[1]);
  const torch::NoGradGuard no_gradients;
  for (auto& [name, tensor] : p) tensor = tensor.to(torch::kHalf).to(torch::kFloat);
  const int64_t rows = held_out.size(0) / kContext;
  const auto batches = held_out.narrow(0, 0, rows * kContext).view({rows, kContext}).split(8);
  double nats = 0;
  for (const Tensor& batch : batches)
    nats += loss_of(p, batch).item<double>() * double(batch.size(0));
  std::cout << "held out: " << nats / double(rows) << " nats a token" << std::endl;
}
