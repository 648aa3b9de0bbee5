// The service: JSON in, JSON out; what it refuses is a Refusal with its own words.

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || "the service refused this");
    this.status = status;
    this.problem = problem;
  }
}

export async function ask(path, body, headers = {}, method = body ? "POST" : "GET") {
  const sent = { "Content-Type": "application/json", ...headers };
  const answer = await fetch(`v1/${path}`, { method, headers: sent, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Refusal(answer.status, await answer.json().catch(() => ({})));
  return method === "HEAD" ? answer : answer.json();
}
