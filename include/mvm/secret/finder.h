#pragma once
// Finds known texts in others, also as they look when somebody has written them another way:
//
//   Plain    as it is
//   Escaped  percent-encoded (once or twice), escaped for JSON, C or HTML, in any mixture
//   Base64   of any text around it: at each of its three alignments, standard and URL alphabet,
//            also in lines; but for the letters at both ends that hold bits of what is beside it
//   Hex      in either case, also in lines and with separators
//
// and each of them in text of UTF-16 too, which has its ASCII letters beside zero bytes. Twice:
// base64 of what is in base64, hexadecimal digits, UTF-16 or escaped, and base64 in hexadecimal
// digits.
//
// What it was given is never changed, and it keeps nothing between two calls.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/pair_sieve.h"
#include "mvm/secret/locked.h"
#include "mvm/secret/text.h"

namespace mvm::secret {

enum class Form : uint8_t { Plain, Escaped, Base64, Hex };

class Finder {
 public:
  struct Hit {
    enum class Kind : uint8_t {
      None,
      Partial,  // from `at` on to the end there is what may become a hit when more comes
      Whole,
    };
    Kind kind = Kind::None;
    size_t at = 0;
    size_t length = 0;
    uint32_t id = 0;
    Form form = Form::Plain;
    // Little may be told as Big, from the zero byte of the letter before it on. What is ASCII comes
    // to the same bytes in its place either way.
    Units units = Units::Bytes;
  };

  // Where what is made of the texts lies: locked memory, or such as costs little, for what is no
  // secret.
  enum class Memory : uint8_t { Locked, Plain };
  explicit Finder(Memory memory = Memory::Locked) : memory_(memory) {}

  // `text` has at least kMinText bytes and is not kept. `written`: how often it may have been.
  static constexpr size_t kMinText = 8;
  enum class Written : uint8_t { Never, Once, Twice };
  void add(std::string_view text, uint32_t id, Written written);
  // All of another one, which outlives this.
  void include(const Finder& other);

  // The first hit at or behind `from`; of several there, the longest. `last`: no more will come.
  Hit find(std::string_view text, size_t from, bool last) const noexcept;
  // False: nothing of it is in a text that is whole.
  bool may_find(std::string_view text) const noexcept { return next_start(text, 0) < text.size(); }
  bool empty() const noexcept { return needles_.empty(); }
  const Locked& locked() const noexcept { return locked_; }

 private:
  struct Needle {
    std::string_view text;
    uint32_t id;
    Form form;
  };
  void add(const Needle& needle);
  void add_base64(std::string_view text, uint32_t id);
  void add_hex(std::string_view text, uint32_t id);
  std::string_view keep(std::string_view text);
  void begin_with(char first, uint16_t needle);
  size_t next_start(std::string_view text, size_t at) const noexcept;
  Hit at_start(std::string_view text, bool& more) const noexcept;

  Memory memory_;
  Locked locked_;
  std::vector<std::unique_ptr<char[]>> plain_;
  size_t block_ = 0;       // size of the last
  size_t plain_left_ = 0;  // of it
  std::vector<Needle> needles_;
  // The needles that may start with a letter: the first and the last link of each list, from 1 on.
  struct Link {
    uint16_t needle;
    char second;    // the only letter or digit that may stand behind it; NUL: any
    uint32_t next;  // 0: none
  };
  std::vector<Link> links_;
  std::array<uint32_t, 256> first_link_{};
  std::array<uint32_t, 256> last_link_{};
  PairSieve pairs_;  // of two bytes that a hit may start with
};

}
