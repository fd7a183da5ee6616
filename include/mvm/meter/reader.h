#pragma once
// Reads the bodies of one exchange with a provider as they pass: of the request what it may use at
// most, of the answer what was used. Any size, in bounded memory, whatever the pieces.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mvm/base/bytes.h"
#include "mvm/http/message.h"
#include "mvm/meter/json.h"
#include "mvm/meter/provider.h"
#include "mvm/meter/usage.h"

namespace mvm::meter {

// ---- the request

struct RequestFacts {
  std::string model;
  bool stream = false;
  std::optional<bool> include_usage;   // as the client asked
  std::optional<uint64_t> max_output;  // tokens of one answer
  uint64_t answers = 1;                // n
  uint64_t bytes = 0;                  // of the body
  bool readable = true;                // false: it is not JSON
};

class RequestReader : public JsonSink {
 public:
  void feed(std::string_view bytes);
  void finish();
  const RequestFacts& facts() const noexcept { return facts_; }

  void number(std::string_view path, std::string_view text) override;
  void literal(std::string_view path, std::string_view word) override;
  void string(std::string_view path, std::string_view text) override;

 private:
  JsonScanner scanner_;
  RequestFacts facts_;
};

// What a request may use at most, as far as it can be told: a token is at least a byte of the
// request, and the answer as long as the request lets it be, or kAssumedOutput, which is what the
// models with the longest answers give who does not say (128 Ki; most give half of it or less).
inline constexpr uint64_t kAssumedOutput = 131'072;
struct Bounds {
  uint64_t input = 0;
  uint64_t output = 0;
  bool operator==(const Bounds&) const = default;
};
Bounds bounds_of(const RequestFacts& facts);

// ---- the answer

// Events of a stream: text/event-stream (WHATWG HTML §9.2). The data of each is a document.
class SseReader {
 public:
  void feed(std::string_view bytes, Tally& tally);
  void finish(Tally& tally);

 private:
  void line_byte(char c, Tally& tally);
  void line_end(Tally& tally);
  void event_end(Tally& tally);

  static constexpr size_t kMaxName = 8;
  enum class Where : uint8_t { Name, Space, Data, Skip } where_ = Where::Name;
  bool behind_cr_ = false;
  bool line_empty_ = true;
  std::string name_;
  std::string head_;  // of the event's data: "[DONE]"
  JsonScanner scanner_;
};

// Messages of AWS's event stream encoding: lengths, a checksum, headers, a payload, a checksum. A
// payload is a document; with "bytes" in it, in base64, another.
class EventStreamReader {
 public:
  static constexpr size_t kMaxMessage = size_t{24} << 20;
  static constexpr size_t kMaxHeaders = size_t{128} << 10;
  void feed(std::string_view bytes, Tally& tally);
  bool failed() const noexcept { return failed_; }
  bool idle() const noexcept { return part_ == Part::Prelude && collected_ == 0; }

 private:
  // Hands the payload's "bytes", decoded, to a second reader.
  class Payload : public JsonSink {
   public:
    void begin(Tally& tally);
    void end(Tally& tally);
    void number(std::string_view path, std::string_view text) override;
    void literal(std::string_view path, std::string_view word) override;
    void string(std::string_view path, std::string_view text) override;
    void container(std::string_view path, bool empty) override;
    void string_bytes(std::string_view path, std::string_view bytes) override;
    void document_end() override;
    JsonScanner outer;

   private:
    Tally* tally_ = nullptr;
    JsonScanner inner_;
    uint32_t bits_ = 0;
    unsigned held_ = 0;
  };

  enum class Part : uint8_t { Prelude, Headers, Payload, Checksum } part_ = Part::Prelude;
  void message_end(Tally& tally);
  void next_part(Tally& tally);
  static constexpr size_t kPrelude = 12;
  std::array<char, kPrelude> prelude_{};
  size_t collected_ = 0;
  size_t left_ = 0;
  size_t headers_ = 0;
  size_t payload_ = 0;
  uint32_t crc_ = 0;
  bool failed_ = false;
  Payload document_;
};

// One answer. Which framing it has is told by its Content-Type, and where that says nothing by its
// first byte.
class ResponseReader {
 public:
  explicit ResponseReader(const Call& call) : call_(call), tally_(call.dialect) {}

  void head(const http::ResponseHead& head);
  void feed(std::string_view bytes);
  // `whole`: the body passed to its end.
  void finish(bool whole);

  enum class Verdict : uint8_t {
    Reported,  // `usage` is what was used
    Unknown,   // something was used, at least `usage`
    Nothing,   // nothing was: an error, or a call that need not use anything up
  };
  struct Result {
    Verdict verdict = Verdict::Unknown;
    Usage usage;
    std::string model;
    bool bad = false;  // a count that was none
    // The id of a batch, or of an answer that may be asked for again.
    std::string once;
    bool operator==(const Result&) const = default;
  };
  // After finish().
  Result result() const;
  const Tally& tally() const noexcept { return tally_; }

 private:
  enum class Framing : uint8_t { Sniff, Json, Sse, EventStream };
  static Framing framing_of(std::string_view content_type);

  Call call_;
  Tally tally_;
  Framing framing_ = Framing::Sniff;
  unsigned status_ = 0;
  bool broken_ = false;  // not what it said it was
  bool ended_ = false;
  bool whole_ = false;
  JsonScanner json_;
  SseReader sse_;
  EventStreamReader events_;
};

}
