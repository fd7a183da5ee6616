#pragma once
// Which bytes of a request's body are of a form's fields, and how text is written there.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mvm/http/message.h"
#include "mvm/protect/multipart.h"
#include "mvm/secret/text.h"

namespace mvm::guard {

inline constexpr std::string_view kFormType = "application/x-www-form-urlencoded";

// "application/json", in lower case and without its parameters.
std::string media_type(const http::Headers& headers);
secret::Writing writing_of(std::string_view media_type);

// A body of multipart/form-data that passes in pieces. From where it is none, all is text.
class FormFields final : private protect::MultipartReader::Sink {
 public:
  // Gets every byte once and in order. `form`: in a field of a form; a file is none. False: nothing
  // more is wanted.
  using Take = std::function<bool(std::string_view bytes, bool form, secret::Writing writing)>;

  // Null where that is not its type.
  static std::unique_ptr<FormFields> begin(const http::Headers& headers, Take take);

  FormFields(const std::string& boundary, Take take)
      : take_(std::move(take)), reader_(boundary, *this) {}

  bool feed(std::string_view bytes, bool last);

 private:
  void framing(std::string_view bytes) override { text(bytes); }
  bool head(std::string_view lines, const protect::PartHead& head) override;
  bool content(std::string_view bytes) override;
  bool part_ends() override { return wanted_; }
  void text(std::string_view bytes);

  Take take_;
  protect::MultipartReader reader_;
  bool reads_ = true;  // it is such a body
  bool wanted_ = true;
  bool form_ = false;  // this part
  secret::Writing writing_ = secret::Writing::Plain;
};

}
