#pragma once
// Reads JSON of any size for a few values in it, a byte at a time and in bounded memory: no tree is
// built, and long strings pass without being kept. Documents may follow each other, so NDJSON needs
// no reader of its own.
//
// A value's path is the names above it: "usage.prompt_tokens", "message.usage.output_tokens"; an
// element of an array is "[]", so that Gemini's array of chunks has "[].usageMetadata".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::meter {

class JsonSink {
 public:
  virtual ~JsonSink() = default;
  virtual void number(std::string_view path, std::string_view text) = 0;
  // true, false or null.
  virtual void literal(std::string_view path, std::string_view word) = 0;
  // As it was written, escapes and all; of one that is longer than kMaxText, the beginning.
  virtual void string(std::string_view path, std::string_view text) = 0;
  // An object or array has ended; `path` is its own.
  virtual void container(std::string_view path, bool empty) {
    static_cast<void>(path), static_cast<void>(empty);
  }
  // Every byte of every string besides, for who wants long ones.
  virtual void string_bytes(std::string_view path, std::string_view bytes) {
    static_cast<void>(path), static_cast<void>(bytes);
  }
  virtual void document_end() {}
};

class JsonScanner {
 public:
  static constexpr size_t kMaxPath = 128;
  static constexpr size_t kMaxText = 256;
  static constexpr size_t kMaxNumber = 64;
  static constexpr size_t kMaxDepth = 512;

  // False when this is not JSON, or deeper than kMaxDepth: nothing more may be fed.
  bool feed(std::string_view bytes, JsonSink& sink);
  // The input has ended: a number at its end counts. False when a document is not whole.
  bool finish(JsonSink& sink);
  void reset();

  bool failed() const noexcept { return failed_; }
  // Between documents.
  bool idle() const noexcept { return depth_.empty() && where_ == Where::Value; }

  // ---- where it stands between two bytes, for who changes what passes
  size_t depth() const noexcept { return depth_.size(); }
  bool in_string() const noexcept { return where_ == Where::String; }
  // Of the value that is being read, or that the next byte may begin.
  std::string_view path() const noexcept { return path_; }
  // A value may begin here.
  bool at_value() const noexcept { return where_ == Where::Value; }
  // The next "}" closes the innermost object, which has `members()`.
  bool may_close_object() const noexcept {
    return !depth_.empty() && depth_.back().object &&
           (where_ == Where::Behind || where_ == Where::FirstName || where_ == Where::Scalar);
  }
  bool has_members() const noexcept { return !depth_.empty() && depth_.back().members; }
  // The path of the innermost container that is open.
  std::string_view container_path() const noexcept {
    return depth_.empty() ? std::string_view()
                          : std::string_view(path_).substr(0, depth_.back().path);
  }
  // It is too long to be told.
  bool dark() const noexcept { return dark_ != 0; }

 private:
  enum class Where : uint8_t { Value, FirstName, Name, Colon, Behind, String, Scalar };
  struct Level {
    bool object = false;
    bool members = false;
    uint16_t path = 0;  // length of the container's own path
    bool dark = false;  // it, or the name of its current member, is in the dark
  };

  bool structural(char c, JsonSink& sink);
  bool begin_value(char c, JsonSink& sink);
  bool open(bool object);
  bool close(bool object, JsonSink& sink);
  bool end_scalar(JsonSink& sink);
  void end_string(JsonSink& sink);
  void name_member(std::string_view name);
  void value_done(JsonSink& sink);
  size_t string_run(std::string_view bytes, JsonSink& sink);
  bool fail() {
    failed_ = true;
    return false;
  }

  Where where_ = Where::Value;
  bool is_name_ = false;  // the string is
  bool escape_ = false;
  bool failed_ = false;
  bool first_element_ = false;  // directly behind "[": "]" may follow
  size_t dark_ = 0;             // levels from here up that are not told
  std::string path_;
  std::string text_;
  std::vector<Level> depth_;
};

}
