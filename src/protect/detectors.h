#pragma once
// The detectors by what triggers them. Each answers with what it found around the trigger, or
// nothing; `resume` says from where triggers matter again.

#include "window.h"

namespace mvm::protect {

// At '@'.
Found match_email(const Window& window, size_t at);
Found match_url_password(const Window& window, size_t at);
// At "-----".
Found match_private_key(const Window& window, size_t at);
// At the first of "::", or of a run of hexadecimal digits and colons.
Found match_ipv6(const Window& window, size_t at);
Found match_mac(const Window& window, size_t at);

// A run of letters, digits, '_' and '-' of 16 or more.
struct Token {
  size_t start;
  size_t end;
  std::string_view text;
  bool open;  // longer than we look
};
Found match_api_key(const Window& window, const Token& token);
Found match_jwt(const Window& window, const Token& token);
Found match_wallet(const Window& window, const Token& token);
Found match_secret_value(const Window& window, const Token& token);
bool is_uuid(std::string_view text) noexcept;

// A word of letters and digits that `at` is in: identity numbers with letters, IBAN, VIN,
// passports, driving licences.
Found match_word(const Window& window, size_t at, const ClassSet& classes);
// The same written in groups: "GB29 NWBK 6016 …", "AB 12 34 56 C", "131052-308T".
Found match_spaced_iban(const Window& window, size_t at);
Found match_spaced_id(const Window& window, size_t at);

}
