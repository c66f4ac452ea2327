#pragma once

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lm/language_model.h"
#include "tessera/lm/perplexity.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"

/// Models that run, as scripts see them. Nothing here loads LibTorch before a model or a tokenizer
/// is asked for, so that help, completion and errors work without it.
namespace tessera::lm_lua {

/// What ts.language_model gives.
struct LoadedModel {
  std::shared_ptr<const lm::LanguageModel> model;
  double load_s = 0;
  /// Of the text that others were last measured on against this model.
  std::shared_ptr<lm::ReferenceStates> states = std::make_shared<lm::ReferenceStates>();
};

/// What ts.tokenizer gives, or a field of a model.
struct Tokenizer {
  std::shared_ptr<const lm::Tokens> tokens;
  std::string path;
};

// The option tables, of which verbs take their flags.
const OptionTable& language_model_options();
const OptionTable& generate_options();
const OptionTable& speed_options();

/// Makes `require "tessera.lm"` work. Needs the core's environment.
void register_lm(lua_State* L);

// Parts of it.
void register_language_model(lua_State* L);
void register_tokenizer(lua_State* L);
void register_generation(lua_State* L);
void register_sampling(lua_State* L);  ///< `require "tessera.sampling"`
int new_language_model(lua_State* L);
int new_tokenizer(lua_State* L);
/// write_gguf_tokenizer(path, folder): the file's vocabulary as tokenizer.json and what goes with
/// it; whether it has one.
int write_gguf_tokenizer(lua_State* L);
int model_generate(lua_State* L);
int model_speed(lua_State* L);
/// product_speed(options): of a product of one shape, { product_s = { ... }, weight_bytes }.
int product_speed(lua_State* L);
/// decoder_kernel_speed(options): of another kernel of a decoder, { call_s = { ... }, bytes, flop
/// }.
int decoder_kernel_speed(lua_State* L);
/// kernel_isas(kernel): versions of it that run here.
int kernel_isas(lua_State* L);
/// chat_prompt(path, messages, template): the text of a chat by the template of the model there, or
/// by a file; `messages` as JSON.
int chat_prompt(lua_State* L);

/// The request that options of ts.language_model make, checked against the model at its path.
lm::LoadRequest read_request(const lua_kit::Options& options);

/// Loads it; Ctrl-C ends that after a layer.
std::shared_ptr<const LoadedModel> load(lm::LoadRequest request);

/// The model that a method was called on.
std::shared_ptr<const LoadedModel> model_self(lua_State* L);

/// What ts.language_model made; a path is loaded as it stands.
std::shared_ptr<const LoadedModel> model_argument(lua_State* L, int index, const std::string& path);

/// The model's tokenizer. @throws Error{invalid_argument} where it has tokens that the model lacks
Tokenizer tokenizer_of(const LoadedModel& loaded);

/// A list of token ids, from 0.
std::vector<std::int32_t> ids_argument(lua_State* L, int index, const std::string& path);
void push_ids(lua_State* L, const std::vector<std::int32_t>& ids);

/// Calls the option `progress` with (done, total), where it was given.
std::function<void(std::int64_t done, std::int64_t total)> progress_of(
    const lua_kit::Options& options);

/// Whether somebody pressed Ctrl-C.
bool interrupted();

}  // namespace tessera::lm_lua

namespace tessera::lua_kit {
template <>
const ObjectType<lm_lua::LoadedModel>& object_type<lm_lua::LoadedModel>();
template <>
const ObjectType<lm_lua::Tokenizer>& object_type<lm_lua::Tokenizer>();
}  // namespace tessera::lua_kit
