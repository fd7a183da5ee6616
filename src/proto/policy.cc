#include "mvm/proto/policy.h"

#include "messages.h"

namespace mvm::proto {

// ---- rules

static void write_rules(CborWriter out, const std::vector<std::string>& rules) {
  out.array(rules.size());
  for (const std::string& rule : rules) out.string(rule);
}

static std::vector<std::string> read_rules(CborReader& in) {
  std::vector<std::string> rules;
  const size_t count = in.array(kMaxPolicyChanges);
  for (size_t i = 0; i < count && in; ++i) rules.emplace_back(in.string(kMaxNetworkText));
  return rules;
}

Bytes PolicyChanges::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    write_rules(map.field("allow"), allow);
    write_rules(map.field("deny"), deny);
  }
  return out;
}

std::optional<PolicyChanges> PolicyChanges::decode(ByteView item) {
  CborReader in(item);
  PolicyChanges changes;
  for (Fields field(in); field.next();) {
    if (field.is("allow"))
      changes.allow = read_rules(in);
    else if (field.is("deny"))
      changes.deny = read_rules(in);
    else
      field.skip();
  }
  return finished(in, changes);
}

Bytes PolicyReport::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.field("made").raw(made.encode());
    map.field("changes").raw(changes.encode());
    map.boolean("recordable", recordable);
  }
  return out;
}

std::optional<PolicyReport> PolicyReport::decode(ByteView item) {
  CborReader in(item);
  PolicyReport report;
  for (Fields field(in); field.next();) {
    if (field.is("made")) {
      auto made = NetworkConfig::decode(in.skip());
      if (made)
        report.made = std::move(*made);
      else
        in.fail();
    } else if (field.is("changes")) {
      auto changes = PolicyChanges::decode(in.skip());
      if (changes)
        report.changes = std::move(*changes);
      else
        in.fail();
    } else if (field.is("recordable")) {
      report.recordable = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, report);
}

Bytes PolicyChangeRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxPolicyChangeVerb);
    map.field("add").raw(add.encode());
  }
  return out;
}

std::optional<PolicyChangeRequest> PolicyChangeRequest::decode(ByteView payload) {
  CborReader in(payload);
  PolicyChangeRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("add")) {
      auto add = PolicyChanges::decode(in.skip());
      if (add)
        request.add = std::move(*add);
      else
        in.fail();
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

// ---- questions

Bytes Question::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", id);
    map.string("host", host);
    map.unsigned_integer("port", port);
    map.string("method", method);
    map.string("path", path);
    map.string("rule", rule);
    map.unsigned_integer("waiting", waiting);
    map.unsigned_integer("left_ms", left_ms);
  }
  return out;
}

std::optional<Question> Question::decode(ByteView item) {
  CborReader in(item);
  Question question;
  for (Fields field(in); field.next();) {
    if (field.is("id"))
      question.id = in.string(kMaxWord);
    else if (field.is("host"))
      question.host = in.string(kMaxNetworkText);
    else if (field.is("port"))
      question.port = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    else if (field.is("method"))
      question.method = in.string(kMaxNetworkText);
    else if (field.is("path"))
      question.path = in.string(kMaxNetworkText);
    else if (field.is("rule"))
      question.rule = in.string(kMaxNetworkText);
    else if (field.is("waiting"))
      question.waiting = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    else if (field.is("left_ms"))
      question.left_ms = in.unsigned_integer();
    else
      field.skip();
  }
  return finished(in, question);
}

Bytes QuestionsRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxQuestionsVerb);
    if (beyond) map.unsigned_integer("beyond", *beyond);
  }
  return out;
}

std::optional<QuestionsRequest> QuestionsRequest::decode(ByteView payload) {
  CborReader in(payload);
  QuestionsRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("beyond"))
      request.beyond = in.unsigned_integer();
    else
      field.skip();
  }
  return finished(in, request);
}

Bytes QuestionList::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    CborWriter list = map.field("questions");
    list.array(questions.size());
    for (const Question& question : questions) list.raw(question.encode());
    map.unsigned_integer("newest", newest);
  }
  return out;
}

std::optional<QuestionList> QuestionList::decode(ByteView item) {
  CborReader in(item);
  QuestionList list;
  for (Fields field(in); field.next();) {
    if (field.is("questions")) {
      const size_t count = in.array(kMaxQuestions);
      for (size_t i = 0; i < count && in; ++i) {
        auto question = Question::decode(in.skip());
        if (question)
          list.questions.push_back(std::move(*question));
        else
          in.fail();
      }
    } else if (field.is("newest")) {
      list.newest = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return finished(in, list);
}

Bytes AnswerRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxAnswerVerb);
    map.string("id", id);
    map.boolean("allow", allow);
    map.boolean("session", session);
  }
  return out;
}

std::optional<AnswerRequest> AnswerRequest::decode(ByteView payload) {
  CborReader in(payload);
  AnswerRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("id"))
      request.id = in.string(kMaxWord);
    else if (field.is("allow"))
      request.allow = in.boolean();
    else if (field.is("session"))
      request.session = in.boolean();
    else
      field.skip();
  }
  return finished(in, request);
}

}
