#include "form_fields.h"

#include <algorithm>

namespace mvm::guard {

static bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string media_type(const http::Headers& headers) {
  const std::string* field = http::find(headers, "Content-Type");
  if (field == nullptr) return "";
  std::string type = field->substr(0, std::min(field->find(';'), field->size()));
  std::erase_if(type, [](char c) {
    return !is_letter_or_digit(c) && c != '/' && c != '+' && c != '-' && c != '.';
  });
  std::ranges::transform(type, type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type;
}

secret::Writing writing_of(std::string_view media_type) {
  if (media_type == kFormType) return secret::Writing::Percent;
  return media_type.find("json") != media_type.npos ? secret::Writing::Json
                                                    : secret::Writing::Plain;
}

std::unique_ptr<FormFields> FormFields::begin(const http::Headers& headers, Take take) {
  const std::string* field = http::find(headers, "Content-Type");
  if (field == nullptr) return nullptr;
  const auto type = protect::parse_media_type(*field);
  if (!type || type->type != "multipart/form-data") return nullptr;
  const auto boundary = protect::MultipartReader::boundary(*type);
  return boundary ? std::make_unique<FormFields>(*boundary, std::move(take)) : nullptr;
}

bool FormFields::feed(std::string_view bytes, bool last) {
  if (!reads_) {
    text(bytes);
    return wanted_;
  }
  reads_ = reader_.feed(bytes) && !last;
  if (!reads_) text(reader_.held());
  return wanted_;
}

bool FormFields::head(std::string_view lines, const protect::PartHead& head) {
  text(lines);
  form_ = !head.name.empty() && !head.file && head.plain;
  writing_ = writing_of(head.type.type);
  return wanted_;
}

bool FormFields::content(std::string_view bytes) {
  wanted_ = wanted_ && take_(bytes, form_, writing_);
  return wanted_;
}

void FormFields::text(std::string_view bytes) {
  wanted_ = wanted_ && (bytes.empty() || take_(bytes, false, secret::Writing::Plain));
}

}
