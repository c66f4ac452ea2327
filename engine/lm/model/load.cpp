#include <fmt/format.h>

#include "shared.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {
namespace {

using weights::Part;

void check_bitwidth(std::int32_t kv_bitwidth) {
  if (kv_bitwidth == 16 || kv_bitwidth == 8) return;
  refuse(ErrorCode::out_of_range, "kv_bitwidth",
         "{} bits; the cache of a model that runs has 16 or 8", kv_bitwidth);
}

LinearForm form_of(const LoadRequest& request, std::int64_t layer_index) {
  LinearForm form;
  if (request.layers.empty()) {
    form.as_stored = true;
  } else {
    form = request.layers[static_cast<std::size_t>(layer_index)];
  }
  form.dtype = request.dtype;
  return form;
}

// Of what is beside the layers: f32 keeps 16-bit numbers of the file as they are, and so with
// blocks of GGUF.
LinearForm form_beside(const LoadRequest& request) {
  LinearForm form{.dtype = request.dtype, .as_stored = true};
  if (!request.layers.empty())
    form.activation_bitwidth = request.layers.front().activation_bitwidth;
  return form;
}

// What is in memory already, of a model that may share it.
struct Held {
  const Decoder::Shared* shared = nullptr;  ///< null: nothing is
  const LoadRequest* request = nullptr;
  std::span<const Layer> layers = {};

  bool has_embedding() const { return shared != nullptr && request->with_embedding; }
  bool has_head(const LinearForm& form) const {
    return shared != nullptr && request->with_head && form_beside(*request) == form;
  }
  bool has(std::int64_t index, const LinearForm& form) const {
    return shared != nullptr && index >= request->first_layer && index < request->last_layer &&
           form_of(*request, index) == form;
  }
};

void check_held(const LoadRequest& request, const LoadRequest& held) {
  if (held.path == request.path && held.dtype == request.dtype && held.device == request.device &&
      held.statistics == request.statistics && held.rank == request.rank &&
      held.ranks == request.ranks && held.elsewhere == request.elsewhere) {
    return;
  }
  refuse("held", "it is of {}, rank {} of {}, with another model, dtype, device or statistics",
         quote(held.path, 300), held.rank, held.ranks);
}

std::int64_t embedding_width(const ModelShape& shape) {
  return shape.token_embedding_parameters / shape.vocab_size;
}

// What the request leaves to other parts of the model, or has already, is in the file all the same.
void leave_embedding(const Decoder::Shared& shared) {
  shared.reader->leave(
      {Part::token_embedding, Part::project_in, Part::position_embedding, Part::embedding_norm});
}

void leave_head(const Decoder::Shared& shared) {
  shared.reader->leave({Part::token_embedding, Part::lm_head, Part::project_out, Part::final_norm});
}

void load_embedding(Decoder::Shared& shared, const LoadRequest& request, const Held& held) {
  if (held.has_embedding()) {
    shared.embedding = held.shared->embedding;
    shared.project_in = held.shared->project_in;
    shared.position_table = held.shared->position_table;
    shared.embedding_norm = held.shared->embedding_norm;
    return leave_embedding(shared);
  }
  const Description& d = shared.description;
  const ModelShape& shape = d.shape;
  const TensorReader& reader = *shared.reader;
  const std::int64_t width = embedding_width(shape);
  shared.embedding = &reader.table(Part::token_embedding, shape.vocab_size, width);
  if (width != shape.hidden_size) {
    shared.project_in =
        reader.matrix(Part::project_in, 0, shape.hidden_size, width, form_beside(request));
  }
  if (d.positions == Positions::learned) {
    const std::int64_t rows = shape.max_context_tokens + d.position_offset;
    const auto& table = reader.table(Part::position_embedding, rows, shape.hidden_size);
    const auto values = reader.values(table, rows * shape.hidden_size);
    shared.position_table =
        shared.backend->upload(values.data(), static_cast<std::int64_t>(values.size()) * 4);
  }
  if (d.embedding_norm)
    shared.embedding_norm = reader.norm(Part::embedding_norm, 0, shape.hidden_size);
}

void load_head(Decoder::Shared& shared, const LoadRequest& request, const Held& held) {
  if (held.has_head(form_beside(request))) {
    shared.project_out = held.shared->project_out;
    shared.head = held.shared->head;
    shared.head_bias = held.shared->head_bias;
    shared.final_norm = held.shared->final_norm;
    return leave_head(shared);
  }
  const ModelShape& shape = shared.description.shape;
  const TensorReader& reader = *shared.reader;
  const std::int64_t width = embedding_width(shape);
  const LinearForm form = form_beside(request);
  if (width != shape.hidden_size)
    shared.project_out = reader.matrix(Part::project_out, 0, width, shape.hidden_size, form);
  shared.head = reader.matrix(shape.tied_embeddings ? Part::token_embedding : Part::lm_head, 0,
                              shape.vocab_size, width, form);
  if (shape.lm_head_parameters > shape.vocab_size * width) {
    const auto head = weights::find_part(*shared.weights, shape, Part::lm_head);
    if (!head || head->bias == nullptr) {
      refuse(ErrorCode::not_found, quote(shared.weights->path(), 300),
             "no tensor lm_head.bias; the checkpoint is not whole");
    }
    shared.head_bias = reader.bias(head->bias, shape.vocab_size);
  }
  const bool optional = shared.description.places == NormPlaces::after_sums;
  if (!optional || weights::find_part(*shared.weights, shape, Part::final_norm))
    shared.final_norm = reader.norm(Part::final_norm, 0, shape.hidden_size);
}

// Hidden states that go from layer to layer side by side, on one machine's CPU.
void check_streams(const LoadRequest& request, const Decoder::Shared& shared) {
  const Description& d = shared.description;
  if (d.num_streams == 1) return;
  const auto cannot = [&](const char* where, const std::string& what) {
    refuse(ErrorCode::unsupported, where, "{} has {} hidden states of a token; {}", d.shape.name,
           d.num_streams, what);
  };
  if (!shared.backend->is_host())
    cannot("device", "they run on the CPU; " + shared.backend->name() + " has no kernels for them");
  if (request.ranks > 1) cannot("ranks", "ranks that share layers are not understood");
  if (request.first_layer > 0 || request.last_layer < d.shape.num_layers)
    cannot("layers", "its layers are not cut apart");
}

// Every part of the model makes what its layers get by token: the tables stay in the file.
void load_layer_inputs(Decoder::Shared& shared, const LoadRequest& request) {
  const ModelShape& shape = shared.description.shape;
  const std::int64_t width = layer_input_width(shape.layer(0));
  if (width == 0) return;
  const TensorReader& reader = *shared.reader;
  const std::int64_t all = shape.num_layers * width;
  shared.embedding = &reader.table(Part::token_embedding, shape.vocab_size, embedding_width(shape));
  shared.layer_embedding =
      &reader.table(Part::layer_embedding, shape.layer_embedding_parameters / all, all);
  shared.layer_projection =
      reader.matrix(Part::layer_projection, 0, all, shape.hidden_size, form_beside(request));
  shared.layer_projection_norm = reader.norm(Part::layer_projection_norm, 0, width);
}

void load_streams(Decoder::Shared& shared, const LoadRequest& request) {
  const std::int64_t hidden = shared.description.shape.hidden_size;
  for (std::int64_t i = 0; i + 1 < shared.description.num_streams; ++i) {
    const auto read = [&](Part part) {
      return shared.reader->matrix(part, i, hidden, hidden, form_beside(request));
    };
    shared.stream_projections.push_back(read(Part::stream_projection));
    shared.stream_returns.push_back(read(Part::stream_return));
  }
}

void load_beside(Decoder::Shared& shared, const LoadRequest& request, const Held& held) {
  const Description& d = shared.description;
  load_layer_inputs(shared, request);
  load_streams(shared, request);
  if (!d.alibi_slopes.empty()) {
    const std::int64_t heads = d.shape.num_heads;
    shared.alibi_slopes = shared.backend->upload(d.alibi_slopes.data() + shared.share.first(heads),
                                                 shared.share.of(heads) * 4);
  }
  if (request.with_embedding) {
    load_embedding(shared, request, held);
  } else {
    leave_embedding(shared);
  }
  if (request.with_head) {
    load_head(shared, request, held);
  } else {
    leave_head(shared);
  }
}

// A layer is quantised while the system fetches the next one.
std::vector<Layer> load_layers(const Decoder::Shared& shared, const LoadRequest& request,
                               const Held& held) {
  const TensorReader& reader = *shared.reader;
  std::vector<Layer> layers(static_cast<std::size_t>(shared.description.shape.num_layers));
  std::vector<std::int64_t> to_read;
  for (std::int64_t index = 0; index < std::ssize(layers); ++index) {
    const auto at = static_cast<std::size_t>(index);
    const bool wanted = index >= request.first_layer && index < request.last_layer;
    if (wanted && held.has(index, form_of(request, index))) layers[at] = held.layers[at];
    if (wanted && !layers[at].matrices) {
      to_read.push_back(index);
    } else {
      reader.leave_layer(index);
    }
  }
  const std::int64_t count = std::ssize(to_read);
  for (std::int64_t done = 0; done < count; ++done) {
    const std::int64_t index = to_read[static_cast<std::size_t>(done)];
    if (request.progress) request.progress(done, count);
    if (done + 1 < count) reader.expect_layer(to_read[static_cast<std::size_t>(done) + 1]);
    layers[static_cast<std::size_t>(index)] = {
        reader.parts(index), reader.matrices(index, form_of(request, index),
                                             shared.statistics ? &*shared.statistics : nullptr)};
  }
  reader.refuse_others();
  if (request.progress) request.progress(count, count);
  return layers;
}

void check_layers(const LoadRequest& request, const ModelShape& shape) {
  if (request.first_layer < 0 || request.last_layer < request.first_layer ||
      request.last_layer > shape.num_layers) {
    refuse(ErrorCode::out_of_range, "layers", "[{}, {}) of the {} layers of {}",
           request.first_layer, request.last_layer, shape.num_layers, shape.name);
  }
  for (std::int64_t index = request.first_layer; index < request.last_layer; ++index) {
    const std::int64_t source = kv_source(shape, index);
    if (source >= request.first_layer) continue;
    refuse(ErrorCode::unsupported, "layers",
           "layer {} of {} attends to the keys of layer {}, and [{}, {}) has the one without the "
           "other; cut the model before or after both",
           index, shape.name, source, request.first_layer, request.last_layer);
  }
  if (request.layers.empty()) return;
  if (static_cast<std::int64_t>(request.layers.size()) != shape.num_layers) {
    refuse("bitwidths", "{} for the {} layers of {}", request.layers.size(), shape.num_layers,
           shape.name);
  }
  for (const LinearForm& form : request.layers) check(form);
}

}  // namespace

std::shared_ptr<const Decoder> Decoder::load(const LoadRequest& request,
                                             std::shared_ptr<const Backend> backend,
                                             TokensLoader load_tokens) {
  check_bitwidth(request.kv_bitwidth);
  auto shared = std::make_shared<Shared>();
  Held held;
  const auto* other = dynamic_cast<const Decoder*>(request.held.get());
  if (other != nullptr) {
    check_held(request, other->request_);
    held = {other->shared_.get(), &other->request_, other->layers_};
    backend = other->shared_->backend;
  } else if (request.elsewhere) {
    backend = make_split_backend(std::move(backend), request.elsewhere);
  }
  shared->weights =
      other != nullptr ? other->shared_->weights : weights::Weights::open(request.path);
  const ModelShape shape = weights::model_of(*shared->weights);
  LoadRequest kept = request;
  if (kept.last_layer < 0) kept.last_layer = shape.num_layers;
  if (kept.num_threads <= 0) kept.num_threads = kernels::hardware_threads();
  check_layers(kept, shape);
  check_share(kept, shape);
  shared->share = share_of(kept);
  shared->description = describe(*shared->weights, shape);
  shared->backend = std::move(backend);
  for (const LayerShape& layer : shape.layer_classes) {
    if (shared->backend->is_host() || (!layer.state && !layer.latent_width)) continue;
    refuse(ErrorCode::unsupported, "device",
           "{} has layers with {}, which run on the CPU; {} has no kernels for them", shape.name,
           layer.state ? "a state" : "latents of all heads", shared->backend->name());
  }
  check_streams(kept, *shared);
  shared->load_tokens = std::move(load_tokens);
  shared->reader = std::make_unique<TensorReader>(shared->weights, shared->description,
                                                  shared->share, shared->backend);
  if (!request.statistics.empty()) shared->statistics = quant::Statistics::open(request.statistics);
  load_beside(*shared, kept, held);
  std::vector<Layer> layers = load_layers(*shared, kept, held);
  kept.held = nullptr;
  kept.progress = nullptr;
  return std::make_shared<const Decoder>(std::move(shared), std::move(kept), std::move(layers));
}

std::shared_ptr<const LanguageModel> Decoder::with_layer(std::int64_t layer_index,
                                                         const LayerForm& form) const {
  need_layers(layer_index, layer_index + 1);
  check(form);
  LoadRequest request = request_;
  for (std::int64_t i = 0; request.layers.empty() && i < shape().num_layers; ++i)
    request.layers.assign(static_cast<std::size_t>(shape().num_layers), form_of(request_, i));
  const auto at = static_cast<std::size_t>(layer_index);
  request.layers[at] = form;
  std::vector<Layer> layers = layers_;
  layers[at].matrices =
      shared_->reader->matrices(layer_index, form_of(request, layer_index),
                                shared_->statistics ? &*shared_->statistics : nullptr);
  return std::make_shared<const Decoder>(shared_, std::move(request), std::move(layers));
}

const Tokens& Decoder::tokens() const {
  std::call_once(shared_->tokens_once, [&] {
    const std::string& path = shared_->weights->path();
    if (!shared_->load_tokens) refuse(ErrorCode::not_found, quote(path, 300), "no tokenizer");
    auto tokens = shared_->load_tokens(path);
    if (tokens->vocab_size() > shape().vocab_size) {
      refuse(quote(path, 300), "the tokenizer has {} tokens and {} {}; it belongs to another model",
             tokens->vocab_size(), shape().name, shape().vocab_size);
    }
    shared_->tokens = std::move(tokens);
  });
  return *shared_->tokens;
}

}  // namespace tessera::lm
