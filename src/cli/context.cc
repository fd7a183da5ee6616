#include "mvm/cli/context.h"

#include <algorithm>

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/io.h"

namespace mvm::cli {

Console Console::standard(const Variable& variable) {
  Look look;
  look.out_terminal = ::isatty(STDOUT_FILENO) == 1;
  look.err_terminal = ::isatty(STDERR_FILENO) == 1;
  const auto no_color = variable("NO_COLOR");
  look.colour = look.out_terminal && !(no_color && !no_color->empty()) &&
                variable("TERM").value_or("") != "dumb";
  return Console(STDOUT_FILENO, STDERR_FILENO, look);
}

void Console::out(std::string_view text) {
  clear_progress();
  sys::write_all(out_, as_bytes(text));
}

void Console::err(std::string_view text) {
  clear_progress();
  sys::write_all(err_, as_bytes(text));
}

std::string Console::coloured(Colour colour, std::string_view text) const {
  if (!look_.colour) return std::string(text);
  std::string_view code = "1";
  switch (colour) {
    case Colour::Red:
      code = "31";
      break;
    case Colour::Green:
      code = "32";
      break;
    case Colour::Yellow:
      code = "33";
      break;
    case Colour::Bold:
      code = "1";
      break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

void Console::progress(std::string_view text) {
  if (!look_.err_terminal) return;
  // Back to the first column and erase to its end: one line, however often it changes.
  sys::write_all(err_, as_bytes("\r\x1b[K" + std::string(text)));
  progress_shown_ = true;
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  sys::write_all(err_, as_bytes("\r\x1b[K"));
}

std::string Context::absolute(std::string_view path) const {
  if (path.starts_with('/')) return std::string(path);
  return directory + "/" + std::string(path);
}

int exit_code_of(proto::EndReason reason) {
  switch (reason) {
    case proto::EndReason::TimeLimit:
    case proto::EndReason::IdleTimeout:
      return kTimedOut;
    case proto::EndReason::OutOfMemory:
    case proto::EndReason::Killed:
      return kKilled;
    default:
      return kFailed;
  }
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += line + '\n';
  }
  return out;
}

std::string seconds_since(std::chrono::steady_clock::time_point start) {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string tame(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool carriage = c == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (c == '\n' || c == '\t' || carriage || (c >= ' ' && c != 0x7f)) {
      out += c;
    } else if (c < 0) {
      // C1 control characters (U+0080 to U+009F) are two bytes in UTF-8; some terminals obey them.
      const bool c1 = c == '\xc2' && i + 1 < text.size() &&
                      static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                      static_cast<unsigned char>(text[i + 1]) < 0xa0;
      if (c1) {
        out += "\\x" + hex(std::as_bytes(std::span(&text[++i], 1)));
      } else {
        out += c;
      }
    } else {
      out += "\\x" + hex(std::as_bytes(std::span(&c, 1)));
    }
  }
  return out;
}

}
