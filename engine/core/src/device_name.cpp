#include "tessera/core/device_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/device_sheet.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

bool is_name_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_name_digit);
}

// Makers, series and what stands on every box. "RTX 3090" and "3090" are one.
constexpr std::string_view kEmptyWords[] = {
    "nvidia", "amd",     "intel",  "apple",       "geforce", "tesla",      "instinct",
    "radeon", "arc",     "rtx",    "gtx",         "rx",      "graphics",   "gpu",
    "card",   "tensor",  "core",   "accelerator", "mac",     "generation", "blackwell",
    "series", "edition", "server", "workstation", "hbm2",    "hbm2e",      "hbm3",
    "hbm3e",  "oam",     "chip",   "corporation", "desktop", "superchip",  "quadro",
    "studio", "r",       "tm",     "gpus",        "lite",    "hash",       "rate",
    "mega"};
constexpr std::string_view kSeries[] = {"nvidia",  "quadro", "rtx", "gtx", "rx",
                                        "geforce", "tesla",  "amd", "arc", "apple"};
constexpr std::string_view kForms[] = {"sxm", "pcie", "nvl"};

// "sxm4" is "sxm"; "" for what is no form.
std::string_view form_of(std::string_view word) {
  for (const std::string_view form : kForms) {
    if (!word.starts_with(form)) continue;
    const std::string_view rest = word.substr(form.size());
    if (rest.empty() || (form == "sxm" && rest.size() == 1 && is_name_digit(rest[0]))) return form;
  }
  return {};
}

bool is_memory_unit(std::string_view text) { return text == "g" || text == "gb" || text == "gib"; }

// Words in lower case, without separators; none where another character stands among them.
std::vector<std::string> name_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : lower(text)) {
    if (std::string_view(" -_().").find(c) != std::string_view::npos) {
      if (!words.back().empty()) words.emplace_back();
    } else if (std::isalnum(static_cast<unsigned char>(c))) {
      words.back() += c;
    } else {
      return {};
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Takes "80gb", or "80" before "gb".
bool take_memory(const std::vector<std::string>& words, std::size_t& at, DeviceName& name) {
  const std::string& word = words[at];
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  if (digits == 0 || digits > 4) return false;
  const bool in_one = is_memory_unit(std::string_view(word).substr(digits));
  const bool in_two =
      digits == word.size() && at + 1 < words.size() && is_memory_unit(words[at + 1]);
  if (!in_one && !in_two) return false;
  double amount = 0;
  std::from_chars(word.data(), word.data() + digits, amount);
  name.memory_gib = amount;
  if (in_two) ++at;
  return true;
}

// "h100sxm" as "h100", "rtx3090" as "3090": what is written together comes apart at its ends.
void take_ends(DeviceName& name) {
  for (const std::string_view series : kSeries) {
    if (name.model.starts_with(series) && name.model.size() > series.size())
      name.model.erase(0, series.size());
  }
  for (std::size_t length : {4u, 3u}) {
    if (name.model.size() <= length) continue;
    const std::string_view end = std::string_view(name.model).substr(name.model.size() - length);
    if (const std::string_view form = form_of(end); !form.empty()) {
      name.form = form;
      name.model.resize(name.model.size() - length);
      return;
    }
  }
}

struct Fit {
  const DeviceSheet* sheet = nullptr;
  bool without_nvlink = false;
  bool by_memory = false;  ///< the memory that was written is that of the sheet's name
};

// How a sheet's own name, its full name or a driver's name fits; nothing where none does.
std::optional<Fit> fit_of(const DeviceSheet& sheet, const DeviceName& wanted) {
  const auto fits = [&](const std::string& text, bool pcie) -> std::optional<Fit> {
    const DeviceName own = parse_device_name(text);
    if (own.model != wanted.model) return std::nullopt;
    const double gib = sheet.memory_bytes / kGiB;
    constexpr double kNominal = 0.08;  // of the number on the box: 45 of 48 GiB
    if (wanted.memory_gib && wanted.memory_gib != own.memory_gib &&
        std::abs(*wanted.memory_gib / gib - 1) > kNominal) {
      return std::nullopt;
    }
    std::string form = pcie ? "pcie" : own.form;
    const bool has_nvlink = sheet.nvlink_bytes_per_s.has_value();
    if (form.empty()) form = has_nvlink ? "sxm" : "pcie";
    if (!wanted.form.empty() && wanted.form != form) return std::nullopt;
    return Fit{&sheet, pcie, wanted.memory_gib && wanted.memory_gib == own.memory_gib};
  };
  std::optional<Fit> fit = fits(sheet.name, false);
  if (!fit) fit = fits(sheet.full_name, false);
  for (const std::string& name : sheet.driver_names) {
    if (!fit) fit = fits(name, false);
  }
  for (const std::string& name : sheet.pcie_driver_names) {
    if (!fit) fit = fits(name, true);
  }
  return fit;
}

// All sheets that fit, also those of one where several are written: "3090s".
std::vector<Fit> fits_of(DeviceName wanted, const std::vector<DeviceSheet>& sheets) {
  std::vector<Fit> fits;
  if (wanted.model.empty()) return fits;
  for (const DeviceSheet& sheet : sheets) {
    if (const auto fit = fit_of(sheet, wanted)) fits.push_back(*fit);
  }
  const std::size_t size = wanted.model.size();
  if (!fits.empty() || size < 3 || wanted.model.back() != 's' ||
      !is_name_digit(wanted.model[size - 2])) {
    return fits;
  }
  wanted.model.pop_back();
  return fits_of(std::move(wanted), sheets);
}

std::string sheet_names(const std::vector<Fit>& fits, const DeviceSheet* without) {
  std::vector<std::string> names;
  for (const Fit& fit : fits) {
    if (fit.sheet != without) names.push_back(fit.sheet->name);
  }
  return join(names, ", ");
}

// Of sheets that all fit, the one that is meant; nothing where that is not clear.
const Fit* meant_of(const std::vector<Fit>& fits) {
  if (fits.size() == 1) return &fits.front();
  const auto is_of_memory = [](const Fit& fit) { return fit.by_memory; };
  if (std::count_if(fits.begin(), fits.end(), is_of_memory) == 1) {
    return &*std::find_if(fits.begin(), fits.end(), is_of_memory);
  }
  const auto usual =
      std::find_if(fits.begin(), fits.end(), [](const Fit& fit) { return fit.sheet->usual; });
  return usual == fits.end() ? nullptr : &*usual;
}

[[noreturn]] void refuse_device(const std::string& name, const std::string& problem,
                                const std::string& where) {
  throw Error(ErrorCode::not_found,
              fmt::format("{}{}unknown device {}{}", where, where.empty() ? "" : ": ", quote(name),
                          problem),
              where);
}

// The model is known, and its memory or form is another.
std::string near_miss(const DeviceName& wanted, const std::vector<DeviceSheet>& sheets) {
  std::vector<std::string> alike;
  for (const DeviceSheet& sheet : sheets) {
    if (fit_of(sheet, {wanted.model, {}, {}}))
      alike.push_back(fmt::format("'{}' ({})", sheet.name, format_bytes(sheet.memory_bytes)));
  }
  return alike.empty() ? "" : fmt::format("; there is {}", join(alike, ", "));
}

}  // namespace

DeviceName parse_device_name(std::string_view text) {
  DeviceName name;
  if (text.size() > 128) return name;
  // lspci's "NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)": the chip, and the board in
  // brackets.
  if (const std::size_t end = text.rfind(']'); end != std::string_view::npos) {
    const std::size_t begin = text.rfind('[', end);
    if (begin != std::string_view::npos) text = text.substr(begin + 1, end - begin - 1);
  }
  std::vector<std::string> kept;
  const std::vector<std::string> words = name_words(text);
  bool quadro = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    quadro = quadro || word == "quadro";
    if (std::find(std::begin(kEmptyWords), std::end(kEmptyWords), word) != std::end(kEmptyWords))
      continue;
    if (take_memory(words, i, name)) continue;
    if (const std::string_view form = form_of(word); !form.empty() && !kept.empty()) {
      name.form = form;
    } else {
      kept.push_back(word);
    }
  }
  name.model = join(kept, "");
  take_ends(name);
  // "Quadro RTX 6000" is Turing's, "RTX 6000" may be any.
  if (quadro && all_digits(name.model)) name.model = "quadro" + name.model;
  return name;
}

bool names_device(const std::string& name, const DataFolders& folders) {
  if (!folders.find("devices", name).empty()) return true;
  const DeviceName wanted = parse_device_name(name);
  return !wanted.model.empty() && !fits_of(wanted, all_sheets(folders)).empty();
}

Device find_device(const std::string& name, const DataFolders& folders, const std::string& where,
                   std::vector<std::string>* notes) {
  std::string file = name;
  if (folders.find("devices", file).empty()) file = "RTX-" + name;  // "3090"
  if (!folders.find("devices", file).empty()) return find_sheet(file, folders, where);
  const DeviceName wanted = parse_device_name(name);
  const std::vector<DeviceSheet> sheets = all_sheets(folders);
  const std::vector<Fit> fits = fits_of(wanted, sheets);
  if (fits.empty()) {
    const std::string miss = wanted.model.empty() ? "" : near_miss(wanted, sheets);
    if (!miss.empty()) refuse_device(name, miss, where);
    const std::vector<std::string> known = folders.list("devices");
    const bool near = wanted.model.empty() || !nearest_names(name, known).empty();
    const std::string& word = near ? name : wanted.model;
    refuse_device(name,
                  nearest_names(word, known).empty()
                      ? ": no sheet is called so (tessera help devices; datasets/SOURCES.md tells "
                        "how to add one)"
                      : did_you_mean(word, known),
                  where);
  }
  const Fit* meant = meant_of(fits);
  if (meant == nullptr) {
    refuse_device(name, fmt::format(": it may be {}; write which", sheet_names(fits, nullptr)),
                  where);
  }
  if (notes != nullptr && fits.size() > 1) {
    notes->push_back(fmt::format("{} is taken for {}; others of the name: {}", name,
                                 meant->sheet->name, sheet_names(fits, meant->sheet)));
  }
  Device device = *meant->sheet;
  if (meant->without_nvlink) device.nvlink_bytes_per_s.reset();
  return device;
}

}  // namespace tessera
