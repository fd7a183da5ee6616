// A record that does not follow from the one before it is kept as a suspect until one more has been
// read: with both neighbours at hand one can tell an edit from a removal, an insertion or a swap.
#include "mvm/audit/verify.h"

#include <algorithm>

#include <fcntl.h>

#include "mvm/audit/log.h"
#include "mvm/base/text.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::audit {

std::string_view wrong_word(Wrong wrong) {
  switch (wrong) {
    case Wrong::Unreadable:
      return "unreadable";
    case Wrong::Version:
      return "version";
    case Wrong::Edited:
      return "edited";
    case Wrong::Removed:
      return "removed";
    case Wrong::Inserted:
      return "inserted";
    case Wrong::Reordered:
      return "reordered";
    case Wrong::Truncated:
      return "truncated";
    case Wrong::Signature:
      return "signature";
    case Wrong::Key:
      return "key";
    case Wrong::File:
      return "file";
  }
  return "unreadable";
}

Verifier::Verifier(const crypto::PublicKey& authority, LogId log, Layout layout,
                   std::optional<Head> known)
    : authority_(authority), log_(std::move(log)), layout_(layout), known_(known) {}

void Verifier::found(Wrong wrong, const Seen& at, std::string what) {
  if (!verdict_.problem)
    verdict_.problem = Problem{wrong, at.file, at.line, at.seq, std::move(what)};
}

// ---- bytes to lines

void Verifier::begin_file(std::string name, uint64_t number) {
  file_ = std::move(name);
  gap_ = gap_ || number != file_number_ + 1;
  file_number_ = number;
  line_number_ = 0;
  begins_file_ = true;
  overlong_ = false;
  torn_hash_.update(as_bytes(partial_));
  partial_.clear();
  ++verdict_.files;
}

void Verifier::feed(ByteView data) {
  std::string_view rest = as_text(data);
  while (!rest.empty() && !verdict_.problem) {
    const size_t end = rest.find('\n');
    const std::string_view piece = rest.substr(0, end);
    if (end != rest.npos) {
      end_line(piece);
      rest.remove_prefix(end + 1);
      continue;
    }
    torn_bytes_ += piece.size();
    if (!overlong_ && partial_.size() + piece.size() <= kMaxLine) {
      partial_ += piece;
      return;
    }
    // No record is so long; what it may be is the rest of a write that was cut short.
    overlong_ = true;
    torn_hash_.update(as_bytes(partial_));
    torn_hash_.update(as_bytes(piece));
    partial_.clear();
    return;
  }
}

void Verifier::end_line(std::string_view piece) {
  ++line_number_;
  if (overlong_) {
    if (suspect_) return judge(*suspect_, nullptr);
    return found(Wrong::Unreadable, {.line = line_number_, .file = file_},
                 "a line is longer than records are");
  }
  torn_bytes_ -= partial_.size();
  if (partial_.empty()) return take(piece);
  std::string whole = std::exchange(partial_, {});
  whole += piece.substr(0, kMaxLine + 1);
  take(whole);
}

// ---- lines to records

Verifier::Seen Verifier::seen(std::string_view text, const Line& line) const {
  return {line.seq,     hash_of(text), line.prev, key_ && is_signed_by(line, *key_),
          line_number_, file_};
}

void Verifier::take(std::string_view text) {
  const auto line = parse(text);
  if (!line) {
    if (suspect_) return judge(*suspect_, nullptr);
    const bool later = is_later_version(text);
    return found(later ? Wrong::Version : Wrong::Unreadable, {.line = line_number_, .file = file_},
                 later ? "the record is of a later version of mvm" : "the line is no audit record");
  }
  const Seen now = seen(text, *line);
  if (suspect_) return judge(*suspect_, &now);
  const Head before = verdict_.head;
  if (line->seq == before.seq + 1 && line->prev == before.hash) return accept(*line, now);
  suspect_ = now;
}

static std::string range(uint64_t first, uint64_t last) {
  return first == last ? "record " + std::to_string(first)
                       : "records " + std::to_string(first) + " to " + std::to_string(last);
}

// `suspect` does not follow from the last good record; `next` is the one behind it.
void Verifier::judge(const Seen& suspect, const Seen* next) {
  const Head last = verdict_.head;
  const uint64_t expected = last.seq + 1;
  const bool next_follows = next != nullptr && next->seq == expected && next->prev == last.hash;
  if (last_ && suspect.seq == last.seq && next != nullptr && next->prev == suspect.hash &&
      suspect.hash != last.hash)
    return found(Wrong::Inserted, *last_,
                 "the record was not there: the next ones go on without it");
  if (suspect.hash == last.hash && last.seq != 0)
    return found(Wrong::Inserted, suspect, "the record before it, a second time");
  if (next_follows && suspect.seq <= expected)
    return found(Wrong::Inserted, suspect,
                 "the record was not there: the next one follows without it");
  if (next_follows) return found(Wrong::Reordered, suspect, "the record is not at its place");
  if (suspect.seq == expected) {
    // One of the two neighbours is not what it was. Whoever is confirmed by the next is not it.
    const bool confirmed =
        suspect.signature_holds || (next != nullptr && next->prev == suspect.hash);
    if (confirmed && last_)
      return found(Wrong::Edited, *last_, "the record is not the one that the next was chained to");
    if (next == nullptr && last_ && !last_->signature_holds)
      return found(Wrong::Edited, *last_, "this record or the next is not what was written");
    return found(Wrong::Edited, suspect, "the record does not continue the one before it");
  }
  if (suspect.prev == last.hash || (next != nullptr && next->seq == expected + 1))
    return found(Wrong::Edited, suspect,
                 "the record's number is not " + std::to_string(expected) + ", which is due");
  if (suspect.seq > expected)
    return found(Wrong::Removed, suspect, range(expected, suspect.seq - 1) + " before it: missing");
  found(Wrong::Reordered, suspect,
        "the record is not at its place: number " + std::to_string(expected) + " is due");
}

void Verifier::accept(const Line& line, const Seen& now) {
  const bool opening = line.kind == "open" || line.kind == "continue";
  const bool signs = opening || line.kind == "checkpoint" || line.kind == "close";
  if (signs != line.signature.has_value())
    return found(Wrong::Unreadable, now, "a record of this kind is signed, and no other");
  if (opening != begins_file_ && !(opening && layout_ == Layout::Exported))
    return found(Wrong::File, now,
                 opening ? "an opening record in the middle of a file"
                         : "the file does not begin with an opening record");
  if (verdict_.closed && line.kind != "open")
    return found(Wrong::Inserted, now, "the log was closed before this record");
  if (opening && !accept_opening(line, now)) return;
  if (signs && !accept_signed(line, now)) return;
  if (known_ && known_->seq == now.seq && known_->hash != now.hash)
    return found(Wrong::Edited, now, "the daemon's log knows another record of this number");
  begins_file_ = false;
  verdict_.closed = line.kind == "close";
  verdict_.missed += line.number("missed");
  verdict_.head = {now.seq, now.hash};
  ++verdict_.records;
  verdict_.unsigned_records = signs ? 0 : verdict_.unsigned_records + 1;
  last_ = now;
  last_->signature_holds = signs;
}

bool Verifier::accept_opening(const Line& line, const Seen& now) {
  const auto refuse = [&](Wrong wrong, std::string what) {
    found(wrong, now, std::move(what));
    return false;
  };
  if (line.field("log") != log_.text())
    return refuse(Wrong::File, "the file is of another log, " + std::string(line.field("log")));
  if (layout_ == Layout::Files) {
    if (line.number("file") != file_number_)
      return refuse(Wrong::File,
                    "the file is number " + std::to_string(line.number("file")) + " by its record");
    if (gap_) return refuse(Wrong::File, "a file before it is missing");
    const auto torn = digest_from_hex(line.field("torn_sha256"));
    const bool same = line.number("torn_bytes") == torn_bytes_ &&
                      (torn_bytes_ == 0 || torn == torn_hash_.digest());
    if (!same)
      return refuse(Wrong::Edited, "before it lie " + std::to_string(torn_bytes_) +
                                       " bytes of a record that was cut short; it knows of " +
                                       std::to_string(line.number("torn_bytes")));
  }
  verdict_.torn_bytes += line.number("torn_bytes");
  torn_bytes_ = 0;
  torn_hash_ = crypto::Sha256();
  if (line.kind != "open") return true;
  const auto key = key_from_hex(line.field("key"));
  if (!key) return refuse(Wrong::Unreadable, "the record names no key");
  if (!is_signed_by(line, authority_))
    return refuse(Wrong::Key,
                  "the record is not signed by the daemon's key, or was edited afterwards");
  key_ = *key;
  return true;
}

bool Verifier::accept_signed(const Line& line, const Seen& now) {
  ++verdict_.signatures;
  if (line.kind == "open" || now.signature_holds) return true;
  const uint64_t since = now.seq - verdict_.unsigned_records;
  found(Wrong::Signature, now,
        range(std::min(since, now.seq), now.seq) +
            ": not what was signed, or the signature was edited");
  return false;
}

Verdict Verifier::finish() {
  if (suspect_ && !verdict_.problem) judge(*suspect_, nullptr);
  verdict_.open_end = torn_bytes_;
  if (!verdict_.problem && known_ && known_->seq > verdict_.head.seq)
    verdict_.problem = Problem{Wrong::Truncated, file_, line_number_, verdict_.head.seq,
                               range(verdict_.head.seq + 1, known_->seq) + " at the end: missing"};
  return std::move(verdict_);
}

Verdict verify_log(const std::string& directory, const LogId& log,
                   const crypto::PublicKey& authority, std::optional<Head> known) {
  Verifier verifier(authority, log, Verifier::Layout::Files, known);
  Bytes buffer(256 * 1024);
  for (const uint64_t number : file_numbers(directory)) {
    const std::string name = file_name(number);
    const sys::Fd file = sys::open_own_file(directory + "/" + name, O_RDONLY);
    verifier.begin_file(name, number);
    uint64_t offset = 0;
    while (const size_t got = sys::pread_some(file.get(), buffer, offset)) {
      verifier.feed(ByteView(buffer).first(got));
      offset += got;
    }
  }
  return verifier.finish();
}

}
