# pyright: basic, reportMissingImports=false
"""A crew of CrewAI whose models, tools and tasks are recorded and sealed, through OpenInference.

    python crewai_crew.py FOLDER

The model is scripted and on loopback. FOLDER gets keys and the record.
"""

import os
import sys
from pathlib import Path

# Before CrewAI is loaded: nothing is sent to anyone.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402
from openinference.instrumentation.crewai import CrewAIInstrumentor  # noqa: E402
from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: E402
from scripted_model import QUESTION, scripted_model  # noqa: E402
from sealed_traces import sealed_traces  # noqa: E402


@tool("leads")
def leads(of: str) -> str:
    """Counts leads."""
    return f"three leads of {of}"


def main(folder: Path) -> None:
    """Runs the crew once, and prints the events of its record."""
    with sealed_traces(folder) as provider, scripted_model() as address:
        for instrumentor in (CrewAIInstrumentor(), OpenAIInstrumentor()):
            instrumentor.instrument(tracer_provider=provider)
        model = LLM(model="openai/gpt-4o", base_url=address, api_key="none")
        scout = Agent(role="scout", goal="Find leads.", backstory="It finds leads.", tools=[leads], llm=model)
        task = Task(description=QUESTION, expected_output="A number.", agent=scout)
        print(Crew(agents=[scout], tasks=[task]).kickoff())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
