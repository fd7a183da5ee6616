#pragma once
// The parts of a multipart body (RFC 2046 §5.1, RFC 7578) that passes in pieces. Strict, because
// parsers of it differ: what stands before the first delimiter and behind the last, lines that only
// begin like a delimiter, and folded lines of a head are not read.
//
// Held back: a head of kMaxHead bytes, or the true beginning of a delimiter.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/protect/body.h"

namespace mvm::protect {

// What a part's head says.
struct PartHead {
  MediaType type{.type = "text/plain", .charset = {}, .boundary = {}};
  std::string name;   // of its Content-Disposition, the beginning; empty: it has none
  bool file = false;  // it has a file name, perhaps an empty one
  bool plain = true;  // as it is, not in a transfer encoding
};

class MultipartReader {
 public:
  // Gets every byte once and in order: who appends them all has the body again.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void framing(std::string_view bytes) = 0;  // delimiters, and the line ends about them
    // The lines of a head with their ends, without the empty one. False: nothing more is read.
    virtual bool head(std::string_view lines, const PartHead& head) = 0;
    virtual bool content(std::string_view bytes) = 0;
    virtual bool part_ends() = 0;
  };

  // `sink` outlives the reader.
  MultipartReader(const std::string& boundary, Sink& sink)
      : sink_(sink), delimiter_("\r\n--" + boundary) {}

  // Nothing where the type is no multipart one, or its boundary none (RFC 2046 §5.1.1).
  static std::optional<std::string> boundary(const MediaType& type);

  // False: this is no multipart body, or the sink has said so; nothing more may be fed.
  bool feed(std::string_view bytes);
  bool whole() const noexcept { return where_ == Where::Behind; }
  // What no sink was given. At the end of a whole body it is the line end behind it, if any.
  std::string_view held() const noexcept { return std::string_view(held_).substr(given_); }

 private:
  enum class Where : uint8_t { Delimiter, Head, Part, Behind };
  enum class Step : uint8_t { Again, More, Bad };
  Step step();
  Step delimiter();
  Step head();
  Step part();
  size_t delimiter_start() const;
  bool give(size_t until);

  Sink& sink_;
  std::string delimiter_;
  std::string held_;
  Where where_ = Where::Delimiter;
  size_t given_ = 0;  // of what is held: the empty line behind a head
};

// Calls `take` with the name and value of each line of a head.
void each_field(std::string_view lines,
                const std::function<void(std::string_view, std::string_view)>& take);

}
