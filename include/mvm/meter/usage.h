#pragma once
// What one answer says was used, in one meaning for all providers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/meter/json.h"
#include "mvm/meter/provider.h"

namespace mvm::meter {

// Counts above this are nobody's usage: the value is not believed.
inline constexpr uint64_t kMaxCount = 1'000'000'000'000;

struct Usage {
  uint64_t input = 0;            // all of the prompt, what was cached of it included
  uint64_t output = 0;           // all that was generated, reasoning included
  uint64_t total = 0;            // input and output, whether or not the provider adds them up
  uint64_t cached = 0;           // of input
  uint64_t cache_written = 0;    // of input
  uint64_t reasoning = 0;        // of output
  uint64_t audio_input = 0;      // of input
  uint64_t audio_output = 0;     // of output
  std::optional<uint64_t> cost;  // in nanodollars, where the provider says it

  bool operator==(const Usage&) const = default;
};

// "0.00125" dollars in nanodollars; nothing when it is negative, or no decimal number.
std::optional<uint64_t> parse_nanodollars(std::string_view text);

// Collects the fields of one answer as they come. Each is the whole so far (of a batch of messages:
// of the message), so that of a field that comes again the last value counts, and none is added up
// but the steps of one answer.
class Tally : public JsonSink {
 public:
  explicit Tally(Dialect dialect) : dialect_(dialect) {}

  void number(std::string_view path, std::string_view text) override;
  void literal(std::string_view path, std::string_view word) override;
  void string(std::string_view path, std::string_view text) override;
  void container(std::string_view path, bool empty) override;
  void document_end() override;
  // A header of the answer; Bedrock's say what was used.
  void header(std::string_view name, std::string_view value);

  // Nothing as long as input or output is not said.
  std::optional<Usage> usage() const;
  // What is known of it at least.
  Usage least() const;
  // The provider has said that nothing follows that could change it.
  bool final() const noexcept { return final_; }
  void mark_final() noexcept { final_ = true; }
  // A count that was no count: negative, fractional, too large.
  bool bad() const noexcept { return bad_; }
  const std::string& model() const noexcept { return model_; }
  // A stream's usage comes before its end, and is not the last word until final().
  bool needs_final() const noexcept {
    return dialect_ == Dialect::Anthropic || dialect_ == Dialect::Gemini;
  }
  // A batch, or an answer that is made in the background, that has not come to its end.
  bool pending() const noexcept { return running_ && !final_; }
  // An answer that is made whether or not somebody waits for it.
  bool background() const noexcept { return background_; }
  // By which the answer may be asked for again.
  const std::string& id() const noexcept { return id_; }

  enum class Field : uint8_t {
    Input,
    Output,
    Total,
    Cached,
    CacheWritten,
    Reasoning,
    AudioInput,
    AudioOutput,
    ToolInput,
    Count
  };

 private:
  using Fields = std::array<std::optional<uint64_t>, static_cast<size_t>(Field::Count)>;
  static std::optional<uint64_t> get(const Fields& fields, Field field) {
    return fields.at(static_cast<size_t>(field));
  }
  static bool any(const Fields& fields);
  std::optional<Usage> read(Fields fields) const;

  Dialect dialect_;
  // Of each rank; the first rank that says anything counts (Groq and Cohere say it twice).
  std::array<Fields, 2> ranks_{};
  Fields these_steps_{};  // of the list that is being read
  Fields steps_{};        // of the last that was read, added up
  std::optional<uint64_t> cost_;
  Usage added_;  // of a batch
  bool adding_ = false;
  bool saw_usage_ = false;
  bool ending_ = false;  // the document that is being read is the last word
  bool final_ = false;
  bool bad_ = false;
  bool running_ = false;
  bool background_ = false;
  std::string model_;
  std::string id_;
};

}
